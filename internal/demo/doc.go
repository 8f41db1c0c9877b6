// Package demo tells the story of a fleet with real components: package lab
// runs hub, members and edges, a child process of this binary is the control
// plane, the examples are applied as a user would, and then parts are cut,
// killed and restored under load.
//
// A chapter of the story says what it does, what must hold and what it really
// saw. It fails when what must hold does not; how long things took is told as a
// figure and decides nothing, since a slow machine is no failure. What a chapter
// breaks it mends, whether it fails or not, so the next one starts from a whole
// fleet.
//
// It talks to loopback addresses of the lab only. When Run returns, no process
// of it is left; logs, kubeconfigs and certificates stay in the lab's folder.
package demo
