package ingest

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// kindConfig is what the parameters of our classes are.
const kindConfig = "GatewayClassConfig"

// IngressClass reads an IngressClass. Other controllers' classes give nothing
// at all. A class of ours whose parameters can't be used gives no row: to serve
// it with defaults might serve it on edges it is not meant for.
func IngressClass(o *networkingv1.IngressClass) (model.Class, model.ClassSpec, bool, model.Findings) {
	name := model.Class(model.Scoped(Workspace(o), o.Name))
	if o.Spec.Controller != v1alpha1.ControllerIngress {
		return name, model.ClassSpec{}, false, nil
	}
	r := reportOf(object("IngressClass", o))
	spec := model.ClassSpec{
		Origin:  origin("IngressClass", o),
		Default: o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true",
	}
	p := o.Spec.Parameters
	if p == nil {
		return name, spec, true, nil
	}
	switch {
	case p.APIGroup == nil || *p.APIGroup != v1alpha1.GroupName || p.Kind != kindConfig:
		r.invalid("spec.parameters", "parameters must be a %s of group %s", kindConfig, v1alpha1.GroupName)
	case p.Scope != nil && *p.Scope != networkingv1.IngressClassParametersReferenceScopeCluster || p.Namespace != nil:
		r.invalid("spec.parameters.scope", "a %s has no namespace: set scope to Cluster and leave namespace out", kindConfig)
	case p.Name == "":
		r.invalid("spec.parameters.name", "the name is missing: name a %s", kindConfig)
	default:
		spec.Config = model.Config(model.Scoped(Workspace(o), p.Name))
		return name, spec, true, nil
	}
	return name, model.ClassSpec{}, false, r.Findings()
}
