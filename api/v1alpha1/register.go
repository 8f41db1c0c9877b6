package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all kinds of this package.
const GroupName = "spillway.dev"

var (
	// GroupVersion is spillway.dev/v1alpha1.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme makes a scheme know the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource returns the group and resource of a plural name, such as
// "memberclusters".
func Resource(plural string) schema.GroupResource {
	return GroupVersion.WithResource(plural).GroupResource()
}

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&MemberCluster{}, &MemberClusterList{},
		&Edge{}, &EdgeList{},
		&GatewayClassConfig{}, &GatewayClassConfigList{},
		&DNSZone{}, &DNSZoneList{},
		&Placement{}, &PlacementList{},
		&GlobalIngress{}, &GlobalIngressList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
