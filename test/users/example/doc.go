// Package example reads what the files of examples/gatewayapi say of themselves, and asks
// whether it holds.
//
// An expectation is a line of a comment with an arrow: what is asked, and what comes.
//
//	# GET http://shop.example/cart with X-Env: canary -> 200 from cart, gets path /, answers X-A: b
//	# GET https://shop.example/ as partner -> 200 from web in eu-1
//	# GRPC http://shop.example/package.Service/Method -> OK from api
//	# TCP :5432 -> from db
//	# UDP :53 -> from dns
//	# TLS vault.example:8443 -> closed
//	# Gateway web -> Programmed
//
// All is asked at the address of the file's Gateway. What follows the status, in any order
// and each after a comma:
//
//	from SERVICE [in MEMBER]       (after the status, without a comma) whose pod answered
//	gets NAME[: VALUE]             the pod got a header; gets no NAME: it did not
//	gets path PATH, gets host HOST
//	answers NAME[: VALUE]          the client got a header; answers no NAME: it did not
//	copied to SERVICE              it got a copy
//	tried once, tried N times      how many requests the Service got
//	again by the same pod          a client that shows the answer's cookies, and its headers
//	                               that are named here without a value, stays with the pod
//
// `as NAME` is a client with the certificate of that name, `closed` a connection that is made
// and ends without an answer. Of an object it is a condition that is True, or with `not` is
// not, or `at ADDRESS`, which its status lists.
package example
