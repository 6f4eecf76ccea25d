package config

import (
	"github.com/seed-4dac0d86/ldapd/store/hbase"
)

// HBase has the settings of connections to HBase.
type HBase struct {
	TLS      HBaseTLS
	Kerberos *hbase.Kerberos // nil without Kerberos
	// KerberosZooKeeper is the principal of ZooKeeper's servers, or empty.
	KerberosZooKeeper string
}

// HBaseTLS has the settings of TLS to HBase. If CA is empty, there is none.
type HBaseTLS struct {
	CA, Certificate, Key string // files; CA may be system
	ServerName           string
	ZooKeeper            bool
}

// hbase reads the settings of connections to HBase, but not the files that they name.
func (r *reader) hbase() HBase {
	h := HBase{TLS: HBaseTLS{
		CA: r.text("hbase.tls-ca"), Certificate: r.text("hbase.tls-certificate"), Key: r.text("hbase.tls-key"),
		ServerName: r.text("hbase.tls-server-name"), ZooKeeper: r.boolean("hbase.tls-zookeeper"),
	}}
	for key, set := range map[string]bool{
		"hbase.tls-certificate": h.TLS.Certificate != "", "hbase.tls-key": h.TLS.Key != "",
		"hbase.tls-server-name": h.TLS.ServerName != "", "hbase.tls-zookeeper": h.TLS.ZooKeeper,
	} {
		if set && h.TLS.CA == "" {
			r.fail(key, "hbase.tls-ca is missing, so there is no TLS")
		}
	}
	if h.TLS.Certificate != "" && h.TLS.Key == "" {
		r.fail("hbase.tls-certificate", "hbase.tls-key is missing")
	}
	if h.TLS.Key != "" && h.TLS.Certificate == "" {
		r.fail("hbase.tls-key", "hbase.tls-certificate is missing")
	}
	k := hbase.Kerberos{
		Principal: r.text("hbase.kerberos-principal"), Server: r.text("hbase.kerberos-server-principal"),
		Keytab: r.text("hbase.kerberos-keytab"), Config: r.text("hbase.kerberos-config"),
		Protection: r.oneOf("hbase.kerberos-protection", "authentication", "integrity", "privacy"),
	}
	h.KerberosZooKeeper = r.text("hbase.kerberos-zookeeper-principal")
	if k.Principal == "" {
		for key, set := range map[string]bool{"hbase.kerberos-keytab": k.Keytab != "", "hbase.kerberos-zookeeper-principal": h.KerberosZooKeeper != ""} {
			if set {
				r.fail(key, "hbase.kerberos-principal is missing, so there is no Kerberos")
			}
		}
		return h
	}
	if k.Keytab == "" {
		r.fail("hbase.kerberos-principal", "hbase.kerberos-keytab is missing")
	} else if err := k.Check(); err != nil {
		r.fail("hbase.kerberos-principal", "%v", err)
	}
	if h.KerberosZooKeeper != "" {
		if err := k.ForZooKeeper(h.KerberosZooKeeper).Check(); err != nil {
			r.fail("hbase.kerberos-zookeeper-principal", "%v", err)
		}
	}
	h.Kerberos = &k
	return h
}

// seal reads the name of the file with keys that seal secrets.
func (r *reader) seal() string {
	file := r.text("secrets.seal")
	if store := r.text("store"); file != "" && store != "" && !hbase.IsURL(store) {
		r.fail("secrets.seal", "it is for a store on HBase, and %s is a folder: encrypt its disk instead", store)
	}
	return file
}
