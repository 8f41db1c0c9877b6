package fleettest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
)

// Filters are words, in "{" and "}" with ";" in between where they follow an
// action or a backend:
//
//	set=NAME:VALUE  add=NAME:VALUE  remove=NAME            headers of a request
//	>set=NAME:VALUE >add=NAME:VALUE >remove=NAME           headers of a response
//	host=HOST  path=PATH                                   a rewrite; PATH that ends with "*" replaces the prefix alone
//	mirror=BACKEND[@PART/OF]                               a copy of requests
//	timeout=DURATION  backend-timeout=DURATION             0s: none
//	retry=[STATUS,...]*ATTEMPTS                            its own retries
//	cors=ORIGIN,...  cors-methods=METHOD,...  cors-headers=NAME,...  cors-expose=NAME,...  cors-credentials  cors-age=SECONDS
//	cookie=NAME[,FIRST]  cookie-path=PATH  cookie-age=SECONDS  session=HEADER   goes back to an endpoint; the cookie of backend FIRST has just this name
//	auth=BACKEND[@grpc]                                    who is asked first
//	auth-path=PATH  auth-send=NAME,...  auth-take=NAME,...  auth-body=BYTES

// ParseFilters reads filters; backend reads a backend.
func ParseFilters(words []string, backend func(string) model.Backend) (model.Filters, error) {
	p := filterParser{backend: backend}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		read, ok := filterWords[key]
		if !ok {
			return model.Filters{}, fmt.Errorf("%q is no filter", w)
		}
		if err := read(&p, value); err != nil {
			return model.Filters{}, fmt.Errorf("%q: %w", w, err)
		}
	}
	p.key.Mirrors = model.PackedOf(p.mirrors...)
	return p.key.Filters(), nil
}

// CutFilters splits "X{a;b}" into "X" and its filters.
func CutFilters(text string) (before string, filters []string) {
	before, in, ok := strings.Cut(text, "{")
	if !ok {
		return before, nil
	}
	return before, strings.Split(strings.TrimSuffix(in, "}"), ";")
}

type filterParser struct {
	key     model.FiltersKey
	mirrors []model.Mirror
	backend func(string) model.Backend
}

var filterWords = map[string]func(*filterParser, string) error{
	"set":              headers(func(k *model.FiltersKey) *model.Packed[model.Header] { return &k.Request.Set }),
	"add":              headers(func(k *model.FiltersKey) *model.Packed[model.Header] { return &k.Request.Add }),
	"remove":           texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.Request.Remove }),
	">set":             headers(func(k *model.FiltersKey) *model.Packed[model.Header] { return &k.Response.Set }),
	">add":             headers(func(k *model.FiltersKey) *model.Packed[model.Header] { return &k.Response.Add }),
	">remove":          texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.Response.Remove }),
	"cors":             texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.CORS.Origins }),
	"cors-methods":     texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.CORS.Methods }),
	"cors-headers":     texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.CORS.Headers }),
	"cors-expose":      texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.CORS.Expose }),
	"cors-credentials": func(p *filterParser, _ string) error { p.key.CORS.Credentials = true; return nil },
	"cors-age": func(p *filterParser, text string) (err error) {
		p.key.CORS.MaxAge, err = strconv.ParseInt(text, 10, 64)
		return err
	},
	"host": func(p *filterParser, text string) error { p.key.Rewrite.Host = text; return nil },
	"path": func(p *filterParser, text string) error {
		p.key.Rewrite.Path, p.key.Rewrite.Prefix = strings.CutSuffix(text, "*")
		return nil
	},
	"cookie": func(p *filterParser, text string) error {
		name, first, has := strings.Cut(text, ",")
		p.key.Session.Name = name
		if p.key.Session.Path == "" {
			p.key.Session.Path = "/"
		}
		if has {
			p.key.Session.First = p.backend(first)
		}
		return nil
	},
	"cookie-path": func(p *filterParser, text string) error { p.key.Session.Path = text; return nil },
	"cookie-age": func(p *filterParser, text string) (err error) {
		p.key.Session.Age, err = strconv.ParseInt(text, 10, 64)
		return err
	},
	"session": func(p *filterParser, text string) error {
		p.key.Session = model.Session{Name: text, Header: true}
		return nil
	},
	"auth": func(p *filterParser, text string) error {
		var name string
		name, _, p.key.Auth.Calls = strings.Cut(text, "@grpc")
		p.key.Auth.Backend = p.backend(name)
		return nil
	},
	"auth-path": func(p *filterParser, text string) error { p.key.Auth.Path = text; return nil },
	"auth-send": texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.Auth.Send }),
	"auth-take": texts(func(k *model.FiltersKey) *model.Packed[string] { return &k.Auth.Take }),
	"auth-body": func(p *filterParser, text string) error {
		n, err := strconv.ParseUint(text, 10, 32)
		p.key.Auth.Body = uint32(n)
		return err
	},
	"mirror":          (*filterParser).mirror,
	"timeout":         func(p *filterParser, text string) error { return timeout(&p.key.Timeouts.Request, text) },
	"backend-timeout": func(p *filterParser, text string) error { return timeout(&p.key.Timeouts.Backend, text) },
	"retry":           (*filterParser).retry,
}

func headers(of func(*model.FiltersKey) *model.Packed[model.Header]) func(*filterParser, string) error {
	return func(p *filterParser, text string) error {
		name, value, _ := strings.Cut(text, ":")
		list := of(&p.key)
		*list = model.PackedOf(append(list.List(), model.Header{Name: name, Value: value})...)
		return nil
	}
}

func texts(of func(*model.FiltersKey) *model.Packed[string]) func(*filterParser, string) error {
	return func(p *filterParser, text string) error {
		list := of(&p.key)
		*list = model.PackedOf(append(list.List(), strings.Split(text, ",")...)...)
		return nil
	}
}

func (p *filterParser) mirror(text string) error {
	name, fraction, _ := strings.Cut(text, "@")
	m := model.Mirror{Backend: p.backend(name)}
	_, err := fmt.Sscanf(cmp.Or(fraction, "1/1"), "%d/%d", &m.Part, &m.Of)
	p.mirrors = append(p.mirrors, m)
	return err
}

func timeout(to *int64, text string) error {
	d, err := time.ParseDuration(text)
	*to = cmp.Or(d.Milliseconds(), model.NoTimeout)
	return err
}

func (p *filterParser) retry(text string) error {
	codes, attempts, _ := strings.Cut(text, "*")
	n, err := strconv.ParseUint(attempts, 10, 32)
	if err != nil {
		return err
	}
	p.key.Retry = model.Retry{Own: true, Attempts: uint32(n)}
	var list []uint16
	for code := range strings.FieldsFuncSeq(codes, func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseUint(code, 10, 16)
		if err != nil {
			return err
		}
		list = append(list, uint16(n))
	}
	p.key.Retry.Codes = model.PackedOf(list...)
	return nil
}
