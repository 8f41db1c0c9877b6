package work

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewClient is a dynamic client that sends each request once.
func NewClient(config *rest.Config) (dynamic.Interface, error) {
	h, err := rest.HTTPClientFor(dynamic.ConfigFor(config))
	if err != nil {
		return nil, err
	}
	return NewClientOver(config, h)
}

// NewClientOver is one that sends them over connections of somebody else.
func NewClientOver(config *rest.Config, h *http.Client) (dynamic.Interface, error) {
	c := dynamic.ConfigFor(config)
	c.GroupVersion, c.APIPath = nil, "/" // each request has a path of its own
	r, err := rest.UnversionedRESTClientForConfigAndClient(c, h)
	if err != nil {
		return nil, err
	}
	return dynamic.New(once{r}), nil
}

// once makes requests that are sent once. The library's own are sent up to ten
// times more within one call, where the answer has Retry-After, as 429 does, or
// the connection breaks: past the back-off of the work and its gate.
type once struct{ rest.Interface }

func (c once) Verb(verb string) *rest.Request { return c.Interface.Verb(verb).MaxRetries(0) }
func (c once) Post() *rest.Request            { return c.Interface.Post().MaxRetries(0) }
func (c once) Put() *rest.Request             { return c.Interface.Put().MaxRetries(0) }
func (c once) Get() *rest.Request             { return c.Interface.Get().MaxRetries(0) }
func (c once) Delete() *rest.Request          { return c.Interface.Delete().MaxRetries(0) }

func (c once) Patch(t types.PatchType) *rest.Request { return c.Interface.Patch(t).MaxRetries(0) }
