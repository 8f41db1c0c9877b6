package checkpoint

import (
	"encoding"
	"fmt"
	"iter"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/spillway-dev/spillway/internal/inc"
)

// table is a registered table with its types erased.
type table interface {
	room(rows int)                         // forgets what was read, for as many others
	decode(i int, key, value []byte) error // row i; any goroutine may read another one
	write(tx *inc.Tx)
}

// registered is a table whose rows are kept, by what is written of them.
type registered[K comparable, V any] struct {
	name string
	set  func(tx *inc.Tx, k K, v V)
	read []pair[K, V] // until they are restored
}

type pair[K comparable, V any] struct {
	key K
	val V
}

// completer is a value with fields that older versions did not write, and that
// mean something other than zero then. Complete sets them where they are.
type completer interface{ Complete() }

// changed is a row that changed.
type changed[K comparable, V any] struct {
	of  *registered[K, V]
	key K
	val *V
	n   uint64
}

func (c *changed[K, V]) number() uint64 { return c.n }

// rowID names a row among all tables.
type rowID[K comparable, V any] struct {
	of *registered[K, V]
	k  K
}

// Register keeps the rows of an input table. The name is part of the format:
// it stays as it is. It panics if a key or value holds what can't be written
// down: the program is wrong then.
func Register[K inc.Key[K], V inc.Value[V]](s *Store, name string, t *inc.Table[K, V]) {
	put := registerRows(s, name, t.Set)
	watch(s, t, func(changes []inc.Change[K, V]) {
		for _, c := range changes {
			put(c.Key, c.New)
		}
	})
}

// registerRows keeps rows as they are written, whatever tables they are of. set
// writes one back into those; what it returns is called with each that changes,
// nil for one that goes.
func registerRows[K comparable, V any](s *Store, name string, set func(*inc.Tx, K, V)) (put func(K, *V)) {
	of := &registered[K, V]{name: name, set: set}
	s.register(name, of, reflect.TypeFor[K](), reflect.TypeFor[V]())
	return func(k K, v *V) {
		s.count++
		s.staged[rowID[K, V]{of, k}] = &changed[K, V]{of, k, v, s.count}
	}
}

// watch calls f with what changes in a table and is not on disk, in key order.
func watch[K inc.Key[K], V inc.Value[V]](s *Store, t *inc.Table[K, V], f func([]inc.Change[K, V])) {
	t.Watch(func(changes []inc.Change[K, V]) {
		if !s.muted {
			f(changes)
		}
	})
	s.again = append(s.again, func() {
		for _, k := range t.Keys() {
			v, _ := t.Get(nil, k)
			f([]inc.Change[K, V]{{Key: k, New: &v}})
		}
	})
}

func (s *Store) register(name string, of table, types ...reflect.Type) {
	for _, typ := range types {
		if err := writable(typ); err != nil {
			panic(fmt.Sprintf("checkpoint: table %s: %v", name, err))
		}
	}
	if s.tables[name] != nil {
		panic("checkpoint: two tables are called " + name)
	}
	s.tables[name] = of
}

var (
	binaryMarshaler = reflect.TypeFor[encoding.BinaryMarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	cborMarshaler   = reflect.TypeFor[cbor.Marshaler]()
)

// writable checks that a type loses nothing when it is written down.
func writable(t reflect.Type) error {
	if t.Implements(binaryMarshaler) || t.Implements(textMarshaler) || t.Implements(cborMarshaler) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous {
				return fmt.Errorf("field %s of %v can't be written", f.Name, t)
			}
			if err := writable(f.Type); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return writable(t.Elem())
	case reflect.Map:
		if err := writable(t.Key()); err != nil {
			return err
		}
		return writable(t.Elem())
	case reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer, reflect.Uintptr:
		return fmt.Errorf("%v can't be written", t)
	}
	return nil
}

var (
	encoder = func() cbor.UserBufferEncMode {
		m, err := cbor.EncOptions{TextMarshaler: cbor.TextMarshalerTextString, Sort: cbor.SortNone}.UserBufferEncMode()
		if err != nil {
			panic(err)
		}
		return m
	}()
	decoder = decoding(cbor.DecOptions{TextUnmarshaler: cbor.TextUnmarshalerTextString})
	// plainDecoder is for values whose types say nothing of how they are read: the
	// library asks that of each string anew.
	plainDecoder = decoding(cbor.DecOptions{BinaryUnmarshaler: cbor.BinaryUnmarshalerNone})
)

func decoding(o cbor.DecOptions) cbor.DecMode {
	o.MaxArrayElements, o.MaxMapPairs = 1<<24, 1<<24
	m, err := o.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}

func (c *changed[K, V]) encode(b *scratch) (record, error) {
	r := record{Table: c.of.name}
	b.key.Reset()
	if err := encoder.MarshalToBuffer(&c.key, &b.key); err != nil {
		return r, fmt.Errorf("a key of table %s: %w", r.Table, err)
	}
	r.Key = b.key.Bytes()
	if c.val == nil {
		return r, nil
	}
	b.value.Reset()
	if err := encoder.MarshalToBuffer(c.val, &b.value); err != nil {
		return r, fmt.Errorf("a row of table %s: %w", r.Table, err)
	}
	r.Value = b.value.Bytes()
	return r, nil
}

func (r *registered[K, V]) room(rows int) { r.read = make([]pair[K, V], rows) }

func (r *registered[K, V]) decode(i int, key, value []byte) error {
	p := &r.read[i]
	if err := decoder.Unmarshal(key, &p.key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := decoder.Unmarshal(value, &p.val); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if old, ok := any(&p.val).(completer); ok {
		old.Complete()
	}
	return nil
}

func (r *registered[K, V]) write(tx *inc.Tx) {
	for i := range r.read {
		r.set(tx, r.read[i].key, r.read[i].val)
	}
}

// Rows are those that Load read of a registered table, in the order in which
// they were first written: what its input will hold after Restore.
func Rows[K comparable, V any](s *Store, name string) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, p := range s.tables[name].(*registered[K, V]).read {
			if !yield(p.key, p.val) {
				return
			}
		}
	}
}
