package ingest

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// GatewayClass reads a GatewayClass. Other controllers' classes give nothing at
// all. One of ours whose parameters can't be used gives no row: to serve it with
// defaults might serve it on edges it is not meant for.
func GatewayClass(o *gatewayv1.GatewayClass) (model.GatewayClass, model.GatewayClassSpec, bool, model.Findings) {
	name := model.GatewayClass(model.Scoped(Workspace(o), o.Name))
	if o.Spec.ControllerName != v1alpha1.ControllerGateway {
		return name, model.GatewayClassSpec{}, false, nil
	}
	r := reportOf(object("GatewayClass", o))
	spec := model.GatewayClassSpec{Generation: o.Generation}
	p := o.Spec.ParametersRef
	if p == nil {
		return name, spec, true, nil
	}
	switch {
	case p.Group != v1alpha1.GroupName || p.Kind != kindConfig:
		r.invalid("spec.parametersRef", "parameters must be a %s of group %s", kindConfig, v1alpha1.GroupName)
	case p.Namespace != nil:
		r.invalid("spec.parametersRef.namespace", "a %s has no namespace: leave it out", kindConfig)
	case p.Name == "":
		r.invalid("spec.parametersRef.name", "the name is missing: name a %s", kindConfig)
	default:
		spec.Config = model.Config(model.Scoped(Workspace(o), p.Name))
		return name, spec, true, nil
	}
	return name, model.GatewayClassSpec{}, false, r.Findings()
}
