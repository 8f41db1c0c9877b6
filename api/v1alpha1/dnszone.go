package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DNSZone is a domain and who serves it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dnszones,shortName=dz,categories=spillway
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.spec.domain`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="TTL",type=integer,JSONPath=`.spec.ttl`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DNSZone struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the operator wants.
	//
	// +required
	Spec DNSZoneSpec `json:"spec"`

	// status is what was seen.
	//
	// +optional
	Status DNSZoneStatus `json:"status,omitzero"`
}

// DNSZoneList is a list of DNSZones.
//
// +kubebuilder:object:root=true
type DNSZoneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DNSZone `json:"items"`
}

// DomainName is a DNS name in lower case without a dot at its end (RFC 1123,
// section 2.1). An internationalised name is written in its A-label form.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
type DomainName string

// DNSZoneSpec is what the operator wants of a zone.
//
// +kubebuilder:validation:XValidation:rule="self.nameServers.all(n, !(n.host == self.domain || n.host.endsWith('.' + self.domain)) || (has(n.addresses) && n.addresses.size() > 0))",message="spec.nameServers: a name server inside the zone's own domain needs addresses (glue), else nobody can find it"
type DNSZoneSpec struct {
	// domain of the zone, such as shop.example.
	//
	// +required
	Domain DomainName `json:"domain"`

	// provider that serves the zone. embedded: `spillway serve` itself.
	//
	// +optional
	// +kubebuilder:default=embedded
	Provider DNSProvider `json:"provider,omitempty"`

	// nameServers of the zone, as the parent zone delegates to them.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=13
	// +listType=map
	// +listMapKey=host
	NameServers []NameServer `json:"nameServers"`

	// soa is the zone's start of authority.
	//
	// +optional
	// +kubebuilder:default={}
	SOA SOA `json:"soa,omitzero"`

	// ttl of address records, in seconds: how long clients may keep an answer
	// after a change.
	//
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TTL int32 `json:"ttl,omitempty"`

	// nameServerTTL is the ttl of the zone's NS and SOA records and of the
	// addresses of its name servers, in seconds. It is long, so that resolvers
	// find the zone while its parent is away.
	//
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	NameServerTTL int32 `json:"nameServerTTL,omitempty"`

	// answersPerQuery is how many edges an answer names at most, nearest
	// first. Left out: one, since resolvers shuffle records and a second edge
	// takes clients away from their nearest one.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	AnswersPerQuery *int32 `json:"answersPerQuery,omitempty"`

	// allowedNamespaces are the namespaces whose objects may have hosts in
	// the zone. Left out: every namespace.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	AllowedNamespaces []string `json:"allowedNamespaces,omitempty"`

	// delegatesTo are the namespaces whose DNSZones may have domains below
	// this one. Left out: only this zone's own.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	DelegatesTo []string `json:"delegatesTo,omitempty"`
}

// DNSProvider is who serves a zone.
//
// +kubebuilder:validation:Enum=embedded
type DNSProvider string

// DNSEmbedded is the server inside `spillway serve`.
const DNSEmbedded DNSProvider = "embedded"

// NameServer is one name server of a zone.
type NameServer struct {
	// host name of the server.
	//
	// +required
	Host DomainName `json:"host"`

	// addresses of the server, IPv4 or IPv6. Needed where host is inside the
	// zone's domain.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	Addresses []IPAddress `json:"addresses,omitempty"`
}

// IPAddress is an IPv4 or IPv6 address without port or prefix.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="use an IPv4 or IPv6 address without port or prefix"
type IPAddress string

// SOA holds the fields of a start of authority record (RFC 1035, section
// 3.3.13), times in seconds. The serial is ours.
type SOA struct {
	// mname is the primary name server. Left out: the first of nameServers.
	//
	// +optional
	MName DomainName `json:"mname,omitempty"`

	// rname is the mailbox of whoever is responsible, written as a domain
	// name: hostmaster.shop.example for hostmaster@shop.example. Left out:
	// hostmaster in the zone's domain.
	//
	// +optional
	RName DomainName `json:"rname,omitempty"`

	// refresh interval of secondaries.
	//
	// +optional
	// +kubebuilder:default=7200
	// +kubebuilder:validation:Minimum=1
	Refresh int32 `json:"refresh,omitempty"`

	// retry interval of secondaries.
	//
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=1
	Retry int32 `json:"retry,omitempty"`

	// expire is when secondaries stop answering.
	//
	// +optional
	// +kubebuilder:default=1209600
	// +kubebuilder:validation:Minimum=1
	Expire int32 `json:"expire,omitempty"`

	// minimum is how long a negative answer may be kept (RFC 2308).
	//
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	Minimum int32 `json:"minimum,omitempty"`
}

// DNSZoneStatus is what was seen of a zone.
type DNSZoneStatus struct {
	// conditions: Accepted, Programmed.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
