package v1alpha1

// NetworkName names a network: those in one network dial each other's pods
// directly.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NetworkName string

// PlaceName is a provider, region, zone or sub-zone, as in node labels and
// Envoy localities.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
type PlaceName string

// Coordinates is a point on the earth, in degrees.
type Coordinates struct {
	// latitude, north positive.
	//
	// +required
	// +kubebuilder:validation:Minimum=-90
	// +kubebuilder:validation:Maximum=90
	Latitude float64 `json:"latitude"`

	// longitude, east positive.
	//
	// +required
	// +kubebuilder:validation:Minimum=-180
	// +kubebuilder:validation:Maximum=180
	Longitude float64 `json:"longitude"`
}
