package request

// ControlText returns the OID of a control, and its name if the name is known.
func ControlText(oid string) string {
	name := unserved[oid]
	if k := controlOf(oid); k != nil {
		name = k.name
	}
	if name == "" {
		return oid
	}
	return oid + " (" + name + ")"
}

// unserved are names of well-known controls that the server does not serve.
var unserved = map[string]string{
	"1.2.840.113556.1.4.417":    "show deleted",
	"1.2.840.113556.1.4.528":    "notification",
	"1.2.840.113556.1.4.529":    "extended DN",
	"1.2.840.113556.1.4.801":    "SD flags",
	"1.2.840.113556.1.4.841":    "DirSync",
	"1.2.840.113556.1.4.1339":   "domain scope",
	"1.2.840.113556.1.4.1340":   "search options",
	"1.2.840.113556.1.4.1504":   "attribute scoped query",
	"1.3.6.1.4.1.4203.666.11.3": "chaining behavior",
	"1.3.6.1.4.1.4203.666.5.11": "what failed",
	"1.3.6.1.4.1.4203.666.5.15": "without subentries",
	"1.3.6.1.4.1.4203.666.5.18": "no-op search",
	"1.3.6.1.4.1.7628.5.101.1":  "LDUP subentries",
	"1.3.6.1.4.1.26027.1.5.2":   "replication repair",
	"2.16.840.1.113730.3.4.12":  "proxied authorization, version 1",
	"2.16.840.1.113730.3.4.17":  "real attributes only",
	"2.16.840.1.113730.3.4.19":  "virtual attributes only",
}
