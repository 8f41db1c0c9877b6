package suite

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	hubKubeconfig string
	kubeconfigs   []memberFlag // in the order of the flags
	class         string
	port          int
	image         string
	features      []string
	report        string
	timeout       time.Duration // of each wait
	drain         time.Duration // how long pods serve after they have been told to end
}

type memberFlag struct{ name, kubeconfig string }

var opts options

func init() {
	opts.features = slices.Sorted(slices.Values(usual))
	flag.StringVar(&opts.hubKubeconfig, "hub", "", "kubeconfig of the hub; without it nothing is tested")
	flag.Func("member", "NAME=KUBECONFIG of a member; repeat it for each, at least two", opts.addMember)
	flag.StringVar(&opts.class, "gateway-class", "", "GatewayClass of the implementation, on the hub")
	flag.IntVar(&opts.port, "port", 80, "port of listeners")
	flag.StringVar(&opts.image, "image", "registry.k8s.io/gateway-api/echo-basic:v1.5.1", "of an HTTP server at $HTTP_PORT that answers in JSON with its `pod` and the `headers` that it got")
	flag.Func("features", "comma list of what the implementation has, of "+strings.Join(features, ", ")+" (default: "+strings.Join(usual, ",")+")", opts.setFeatures)
	flag.StringVar(&opts.report, "report", "", "file to write the report to, in YAML")
	flag.DurationVar(&opts.timeout, "timeout", time.Minute, "of each wait")
	flag.DurationVar(&opts.drain, "drain", 5*time.Second, "how long pods serve after they have been told to end: so long an implementation may take to notice")
}

func (o *options) addMember(text string) error {
	name, kubeconfig, found := strings.Cut(text, "=")
	if !found || name == "" || kubeconfig == "" {
		return errors.New("use NAME=KUBECONFIG")
	}
	if slices.ContainsFunc(o.kubeconfigs, func(m memberFlag) bool { return m.name == name }) {
		return fmt.Errorf("member %s is named twice", name)
	}
	o.kubeconfigs = append(o.kubeconfigs, memberFlag{name, kubeconfig})
	return nil
}

// setFeatures takes what upstream's suite is told as well: the many features of which
// nothing is tested here are passed over.
func (o *options) setFeatures(list string) error {
	o.features = nil
	for f := range strings.SplitSeq(list, ",") {
		if f = strings.TrimSpace(f); slices.Contains(features, f) && !slices.Contains(o.features, f) {
			o.features = append(o.features, f)
		}
	}
	slices.Sort(o.features)
	return nil
}

// check tells what is missing of the flags.
func (o *options) check() error {
	switch {
	case len(o.kubeconfigs) < fewest:
		return fmt.Errorf("-member: %d members are needed, and there are %d", fewest, len(o.kubeconfigs))
	case o.class == "":
		return errors.New("-gateway-class: name the GatewayClass of the implementation")
	}
	return nil
}

// lacks are the features of a list that are not claimed.
func (o *options) lacks(needed []string) (out []string) {
	for _, f := range needed {
		if !slices.Contains(o.features, f) {
			out = append(out, f)
		}
	}
	return out
}
