package auth

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/xdg-go/scram"
)

// bindings are the supported types of channel bindings (RFC 9266, RFC 5929), best first.
var bindings = []string{"tls-exporter", "tls-unique", "tls-server-end-point"}

// Bindable reports whether a mechanism can bind to the channel.
func Bindable(c Channel) bool {
	for _, kind := range bindings {
		if binding(c, kind).IsSupported() {
			return true
		}
	}
	return false
}

// binding returns the channel binding of a type. The result is empty if the channel does
// not support the type.
func binding(c Channel, kind string) scram.ChannelBinding {
	state := c.TLS()
	if state == nil || !state.HandshakeComplete {
		return scram.ChannelBinding{}
	}
	var b scram.ChannelBinding
	var err error
	switch kind {
	case "tls-exporter":
		b, err = scram.NewTLSExporterBinding(state)
	case "tls-unique":
		// TLSUnique is empty where the value would not be unique: in TLS 1.3, and after a
		// resumption without the extended master secret.
		b = scram.NewTLSUniqueBinding(state.TLSUnique)
	case "tls-server-end-point":
		b, err = endPoint(c)
	}
	if err != nil {
		return scram.ChannelBinding{}
	}
	return b
}

// endPoint returns the channel binding to the server's own certificate. The library
// expects the TLS state of a client, in which PeerCertificates are the server's
// certificates.
func endPoint(c Channel) (scram.ChannelBinding, error) {
	cert := c.Certificate()
	if cert == nil {
		return scram.ChannelBinding{}, nil
	}
	return scram.NewTLSServerEndpointBinding(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}})
}

// BindingData returns the application data of the channel bindings that GSSAPI may have bound to (RFC 5929, RFC 9266).
func BindingData(c Channel) (data [][]byte) {
	for _, kind := range bindings {
		if b := binding(c, kind); b.IsSupported() {
			data = append(data, append([]byte(kind+":"), b.Data...))
		}
	}
	return data
}
