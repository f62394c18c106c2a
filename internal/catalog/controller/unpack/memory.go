package unpack

import "sync"

// catalogMemory is the in-memory state of the controller for each catalog. It only avoids unnecessary work and
// can be lost at any time.
type catalogMemory struct {
	mu       sync.Mutex
	catalogs map[string]*catalogRecord
}

type catalogRecord struct {
	// rejectedImage is an image with invalid content, and rejection the error, so that the image is not
	// pulled again at each poll.
	rejectedImage string
	rejection     error
	// pinnedRef and pinnedImage are a reference of the spec and the image that it was resolved to. They
	// are required if the first attempt to fetch the image again fails, because the status does not
	// contain the image after that.
	pinnedRef, pinnedImage string
	// lastRefresh is the last refresh request that was carried out.
	lastRefresh string
}

// recordFor returns the record of a catalog, and creates it if necessary. The caller holds mu.
func (m *catalogMemory) recordFor(name string) *catalogRecord {
	if m.catalogs == nil {
		m.catalogs = map[string]*catalogRecord{}
	}
	if m.catalogs[name] == nil {
		m.catalogs[name] = &catalogRecord{}
	}
	return m.catalogs[name]
}

// recordRejection records that the content of an image is invalid.
func (m *catalogMemory) recordRejection(name, resolved string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.recordFor(name)
	r.rejectedImage, r.rejection = resolved, err
}

// findRejection returns the error for which an image was rejected, or nil.
func (m *catalogMemory) findRejection(name, resolved string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil && r.rejectedImage == resolved {
		return r.rejection
	}
	return nil
}

// clearRejection removes the record of a rejected image.
func (m *catalogMemory) clearRejection(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil {
		r.rejectedImage, r.rejection = "", nil
	}
}

// pinImage records the image that a reference was resolved to, unless resolved is empty. It returns the
// recorded image of the reference, or "".
func (m *catalogMemory) pinImage(name, ref, resolved string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if resolved != "" {
		r := m.recordFor(name)
		r.pinnedRef, r.pinnedImage = ref, resolved
	}
	if r := m.catalogs[name]; r != nil && r.pinnedRef == ref {
		return r.pinnedImage
	}

	return ""
}

// unpinImage removes the record of pinImage.
func (m *catalogMemory) unpinImage(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil {
		r.pinnedRef, r.pinnedImage = "", ""
	}
}

// recordRefresh records that a refresh request was carried out.
func (m *catalogMemory) recordRefresh(name, request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recordFor(name).lastRefresh = request
}

// lastRefresh returns the last refresh request that was carried out, or "".
func (m *catalogMemory) lastRefresh(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.catalogs[name]; r != nil {
		return r.lastRefresh
	}
	return ""
}

// forgetCatalog removes all records of a catalog.
func (m *catalogMemory) forgetCatalog(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.catalogs, name)
}
