package hbase

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
)

// dialZooKeeper connects to a server of ZooKeeper with TLS. The client of ZooKeeper passes the server's address, and not
// the name that the store's URL has. So the certificate must contain one of the names in the URL.
func (c *conn) dialZooKeeper(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	line, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t, err := alltime.Handshake(ctx, line, func() (*tls.Config, error) {
		conf, err := c.dialer.TLS()
		if err != nil || conf.ServerName != "" {
			return conf, err
		}
		conf = conf.Clone()
		conf.InsecureSkipVerify = true // VerifyConnection verifies
		conf.VerifyConnection = func(s tls.ConnectionState) error { return c.verifyZooKeeper(conf.RootCAs, s) }
		return conf, nil
	}, addr)
	if err != nil {
		line.Close()
		return nil, err
	}
	return t, nil
}

func (c *conn) verifyZooKeeper(roots *x509.CertPool, s tls.ConnectionState) (err error) {
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, i := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(i)
	}
	for _, server := range c.target.Quorum {
		if o.DNSName, _, err = net.SplitHostPort(server); err != nil {
			return err
		}
		if _, err = s.PeerCertificates[0].Verify(o); err == nil {
			return nil
		}
	}
	return err
}
