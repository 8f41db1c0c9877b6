module github.com/spillway-dev/spillway/examples/globalingress-consumer

go 1.27.0

require (
	github.com/spillway-dev/spillway v0.0.0
	k8s.io/apimachinery v0.37.1
	k8s.io/client-go v0.37.1
)

replace github.com/spillway-dev/spillway => ../..
