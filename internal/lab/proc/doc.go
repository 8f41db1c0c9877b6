// Package proc keeps a program of the lab running: started in a given network
// namespace, restarted with back-off when it ends by itself, counted, and never
// outliving the lab. Linux only; other systems get the empty package.
package proc
