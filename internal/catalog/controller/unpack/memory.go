package unpack

import "sync"

// memory is what the controller remembers of catalogs while it runs. All of it may be
// lost: it only saves work.
type memory struct {
	mu       sync.Mutex
	catalogs map[string]*remembered
}

type remembered struct {
	// refused is the image whose content was found wrong, and why, so that it is not
	// pulled at each poll only to be refused again.
	refused string
	err     error
	// pinRef and pinned are a reference of the spec and the image that it gave when it was
	// resolved, so that it is still known when the first attempt to fetch that again fails
	// and the status does not name it any more.
	pinRef, pinned string
	// refreshed is the last request to look at the registry that was carried out.
	refreshed string
}

func (m *memory) of(name string) *remembered {
	if m.catalogs == nil {
		m.catalogs = map[string]*remembered{}
	}
	if m.catalogs[name] == nil {
		m.catalogs[name] = &remembered{}
	}
	return m.catalogs[name]
}

// refuse notes that an image's content was found wrong.
func (m *memory) refuse(name, resolved string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(name)
	r.refused, r.err = resolved, err
}

// refused returns the error with which an image was refused, if it was.
func (m *memory) refused(name, resolved string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil && r.refused == resolved {
		return r.err
	}
	return nil
}

// allow forgets that an image's content was found wrong.
func (m *memory) allow(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil {
		r.refused, r.err = "", nil
	}
}

// pin notes the image that a reference is to give, if it is not empty, and gives the one
// that was noted for the reference.
func (m *memory) pin(name, ref, resolved string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if resolved != "" {
		r := m.of(name)
		r.pinRef, r.pinned = ref, resolved
	}
	if r := m.catalogs[name]; r != nil && r.pinRef == ref {
		return r.pinned
	}

	return ""
}

// unpin forgets the image that was noted by pin.
func (m *memory) unpin(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil {
		r.pinRef, r.pinned = "", ""
	}
}

// refresh notes that a request to look at the registry was carried out.
func (m *memory) refresh(name, request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(name).refreshed = request
}

// refreshed returns the last request that was carried out.
func (m *memory) refreshed(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil {
		return r.refreshed
	}
	return ""
}

// forget forgets a catalog.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.catalogs, name)
}
