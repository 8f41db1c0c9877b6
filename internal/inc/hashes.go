package inc

// hashes finds numbers, not 0, by hashes. A large commit looks keys up more than
// it does anything else, so this is an array of slots, and what has no room in its
// own is in one of the next. A slot holds the hash beside the number: keys of other
// hashes are passed over without a look at them, and the slots are made anew
// without their keys.
type hashes struct {
	slots []slot // a power of two of them, or none
	n     int    // that are not empty
}

// slot is a hash and a number; 0: empty.
type slot uint64

func slotOf(hash, number uint32) slot { return slot(hash)<<32 | slot(number) }

func (p slot) hash() uint32   { return uint32(p >> 32) }
func (p slot) number() uint32 { return uint32(p) }

// fewSlots are the least that there are.
const fewSlots = 8

// holds is how many numbers some slots have room for: three quarters, so that
// what is not there is soon known not to be.
func holds(slots int) int { return slots / 4 * 3 }

// at is where slot i of those that a hash may be in is: 0 is its own.
func (h *hashes) at(hash, i uint32) uint32 { return (hash + i) & uint32(len(h.slots)-1) }

// add adds a number.
func (h *hashes) add(hash, number uint32) {
	if h.n >= holds(len(h.slots)) {
		h.resize(max(fewSlots, 2*len(h.slots)))
	}
	h.n++
	h.put(slotOf(hash, number))
}

func (h *hashes) put(p slot) {
	at := h.at(p.hash(), 0)
	for h.slots[at] != 0 {
		at = h.at(at, 1)
	}
	h.slots[at] = p
}

func (h *hashes) resize(n int) {
	old := h.slots
	h.slots = make([]slot, n)
	for _, p := range old {
		if p != 0 {
			h.put(p)
		}
	}
}

// remove takes a number away; false: it is not there.
func (h *hashes) remove(hash, number uint32) bool {
	if h.n == 0 {
		return false
	}
	at := h.at(hash, 0)
	for h.slots[at] != slotOf(hash, number) {
		if h.slots[at] == 0 {
			return false
		}
		at = h.at(at, 1)
	}
	h.close(at)
	h.n--
	if n := len(h.slots); n > fewSlots && holds(n) > 4*h.n {
		for n > fewSlots && holds(n/2) >= 2*h.n {
			n /= 2
		}
		h.resize(n)
	}
	return true
}

// close empties a slot. What was put behind it for want of room moves up, or it
// would not be found any more.
func (h *hashes) close(gap uint32) {
	for at := h.at(gap, 1); h.slots[at] != 0; at = h.at(at, 1) {
		own := h.at(h.slots[at].hash(), 0)
		if h.at(at, -own) >= h.at(at, -gap) { // the gap is not before its own slot
			h.slots[gap], gap = h.slots[at], at
		}
	}
	h.slots[gap] = 0
}
