// Package examples holds the manifests of the five-minute start.
package examples

import _ "embed"

// Shop is what a user writes on the hub.
//
//go:embed shop.yaml
var Shop []byte

// ShopMember is what runs in each member.
//
//go:embed shop-member.yaml
var ShopMember []byte

// Gateway is the same by the Gateway API.
//
//go:embed gateway.yaml
var Gateway []byte

// Placement says which members serve.
//
//go:embed placement.yaml
var Placement []byte

// Leaf is the same by controllers that members have themselves.
//
//go:embed leaf.yaml
var Leaf []byte

// LeafGateway is the same by the Gateway API.
//
//go:embed leaf-gateway.yaml
var LeafGateway []byte
