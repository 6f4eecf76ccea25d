package server

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

// Load returns the current load. It examines every connection, so do not call it often.
func (s *Server) Load() *monitor.Load {
	l := &monitor.Load{MaxConnections: s.options().MaxConnections}
	by := map[string]*monitor.ListenerLoad{}
	for _, url := range s.listening() {
		by[url] = &monitor.ListenerLoad{URL: url}
	}
	for _, c := range s.open() {
		of := by[c.traffic.URL]
		if of == nil {
			of = &monitor.ListenerLoad{URL: c.traffic.URL}
			by[c.traffic.URL] = of
		}
		c.addTo(l, of)
	}
	for _, of := range by {
		l.Listeners = append(l.Listeners, *of)
	}
	slices.SortFunc(l.Listeners, func(a, b monitor.ListenerLoad) int { return strings.Compare(a.URL, b.URL) })
	return l
}

// listening returns the URLs of the listeners.
func (s *Server) listening() (urls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		urls = append(urls, urlOf(l))
	}
	return urls
}

// addTo adds a connection and its operations to the load.
func (c *conn) addTo(l *monitor.Load, of *monitor.ListenerLoad) {
	if c.info.TLS() != nil {
		of.TLS++
	} else {
		of.Clear++
	}
	if c.nc.writes.Load()%2 == 1 {
		l.Writing++
	}
	c.ops.addTo(l, of)
}
