package config

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const deploy = "../../../../deploy"

// imageFile has the settings of the image.
const imageFile = deploy + "/container/ldapd.yaml"

// TestContainerfile checks that the Containerfile names variables that exist and sets none, since they would win over a
// file that is mounted, and that the image's settings are valid. The exposed ports must be those on which a server with
// these settings listens.
func TestContainerfile(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(deploy, "container/Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, name := range regexp.MustCompile(`LDAPD_[A-Z_]+`).FindAllString(text, -1) {
		if name != "LDAPD_" && name != FileEnv && keyOfEnv(name) == nil {
			t.Errorf("there is no variable %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ENV (LDAPD_.*)$`).FindAllStringSubmatch(text, -1) {
		if m[1] != FileEnv+"="+DefaultFile {
			t.Errorf("it sets %s", m[1])
		}
	}
	c, mistakes := Check(Sources{File: imageFile})
	if c.Store == "" || len(mistakes) > 0 {
		t.Errorf("%s: %v", imageFile, mistakes)
	}
	exposed := strings.Fields(regexp.MustCompile(`(?m)^EXPOSE (.*)$`).FindStringSubmatch(text)[1])
	if want := slices.Sorted(maps.Keys(portsOf(t, c))); !slices.Equal(exposed, want) {
		t.Errorf("exposes %v, listens on %v", exposed, want)
	}
	for _, want := range []string{"FROM scratch\n", "USER 65532:65532\n", `ENTRYPOINT ["/ldapd"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
}

// TestCompose checks that the environment variables of the compose file are settings with valid values.
func TestCompose(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(deploy, "container/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	var env []string
	for name, value := range file.Services["ldapd"].Environment {
		env = append(env, name+"="+value)
	}
	if _, mistakes := Check(Sources{File: imageFile, Env: env}); len(env) < 4 || len(mistakes) > 0 {
		t.Errorf("%v: %v", env, mistakes)
	}
}

// portsOf returns the ports on which a server with the configuration c listens, each with
// its name in the manifests.
func portsOf(t *testing.T, c *Config) map[string]string {
	ports := map[string]string{}
	for _, s := range append(slices.Clone(c.Listen), c.Status) {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		ports[u.Port()] = strings.Replace(u.Scheme, "http", "status", 1)
	}
	return ports
}

// TestManifests checks the manifests for Kubernetes, as far as this is possible without a
// cluster. The keys and flags that the manifests set must exist, and so must the ports and
// volumes that they refer to by name. Their ports must be the ports in the configuration.
func TestManifests(t *testing.T) {
	for _, file := range []string{"embedded.yaml", "hbase.yaml"} {
		t.Run(file, func(t *testing.T) { readManifests(t, filepath.Join(deploy, "kubernetes", file)).check() })
	}
}

// object is a mapping of a manifest.
type object map[string]any

// The method "at" returns the object at a path of keys, or nil if there is none.
func (o object) at(path ...string) object {
	for _, p := range path {
		next, _ := o[p].(map[string]any)
		o = next
	}
	return o
}

// list returns the objects of a list.
func (o object) list(key string) (all []object) {
	items, _ := o[key].([]any)
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

type manifests struct {
	*testing.T
	kinds map[string][]object
	pod   object // the specification of the pods
	ports map[string]string
}

func readManifests(t *testing.T, file string) *manifests {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := &manifests{T: t, kinds: map[string][]object{}}
	for d := yaml.NewDecoder(f); ; {
		var o map[string]any
		if err := d.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprint(o["kind"])
		m.kinds[kind] = append(m.kinds[kind], o)
	}
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		for _, o := range m.kinds[kind] {
			m.pod = object(o).at("spec", "template", "spec")
		}
	}
	return m
}

func (m *manifests) check() {
	if m.pod == nil {
		m.Fatal("no pods")
	}
	m.configuration()
	m.container()
	m.selectors()
	m.references()
}

// configuration checks the configuration in the ConfigMap.
func (m *manifests) configuration() {
	text := fmt.Sprint(m.kinds["ConfigMap"][0].at("data")["ldapd.yaml"])
	c, mistakes := Check(Sources{File: write(m.T, "ldapd.yaml", text)})
	for _, e := range mistakes {
		if !strings.Contains(e.Text, "admin.password-file: open /etc/ldapd-admin/admin.hash") {
			m.Error(e)
		}
	}
	m.ports = portsOf(m.T, c)
	var mounted []string
	for _, v := range m.pod.list("containers")[0].list("volumeMounts") {
		mounted = append(mounted, fmt.Sprint(v["mountPath"]))
	}
	paths := []string{c.TLS.Certificate, c.TLS.Key, "/etc/ldapd/ldapd.yaml", "/etc/ldapd-admin/admin.hash"}
	if strings.HasPrefix(c.Store, "/") {
		paths = append(paths, c.Store)
	}
	for _, p := range paths {
		if !slices.ContainsFunc(mounted, func(dir string) bool { return strings.HasPrefix(p, dir+"/") }) {
			m.Errorf("no volume has %s", p)
		}
	}
}

func (m *manifests) container() {
	c := m.pod.list("containers")[0]
	for _, a := range c["args"].([]any) {
		flag, ok := strings.CutPrefix(fmt.Sprint(a), "--")
		if ok && flag != "config" && flag != "create" && !slices.ContainsFunc(Keys, func(k Key) bool { return k.Flag() == flag }) {
			m.Errorf("there is no flag --%s", flag)
		}
	}
	for _, e := range c.list("env") {
		if keyOfEnv(fmt.Sprint(e["name"])) == nil {
			m.Errorf("there is no variable %s", e["name"])
		}
	}
	got := map[string]string{}
	for _, p := range c.list("ports") {
		got[fmt.Sprint(p["containerPort"])] = fmt.Sprint(p["name"])
	}
	if !maps.Equal(got, m.ports) {
		m.Errorf("ports %v, the configuration has %v", got, m.ports)
	}
	for probe, path := range map[string]string{"startupProbe": "/ready", "readinessProbe": "/ready", "livenessProbe": "/live"} {
		if get := c.at(probe, "httpGet"); get["path"] != path || get["port"] != "status" {
			m.Errorf("%s: %v", probe, get)
		}
	}
	// The environment variables that Kubernetes sets for a service named ldapd begin with
	// LDAPD_, so ldapd would take them for settings.
	if m.pod["enableServiceLinks"] != false {
		m.Error("enableServiceLinks is not false")
	}
	if s := c.at("securityContext"); s["readOnlyRootFilesystem"] != true || s["allowPrivilegeEscalation"] != false || m.pod.at("securityContext")["runAsNonRoot"] != true {
		m.Error("the container may do too much")
	}
}

// selectors checks that every selector selects the pods of the manifests.
func (m *manifests) selectors() {
	const label = "app.kubernetes.io/name"
	for kind, path := range map[string][]string{
		"Service": {"spec", "selector"}, "NetworkPolicy": {"spec", "podSelector", "matchLabels"},
		"PodDisruptionBudget": {"spec", "selector", "matchLabels"}, "StatefulSet": {"spec", "selector", "matchLabels"},
		"Deployment": {"spec", "selector", "matchLabels"},
	} {
		for _, o := range m.kinds[kind] {
			if got := o.at(path...)[label]; got != "ldapd" {
				m.Errorf("%s selects %v", kind, got)
			}
		}
	}
	if len(m.kinds["Service"]) < 2 || len(m.kinds["NetworkPolicy"]) != 1 {
		m.Error("services or the network policy are missing")
	}
}

// references checks that the ports and volumes that the manifests refer to by name exist.
func (m *manifests) references() {
	names := slices.Collect(maps.Values(m.ports))
	var used []object
	for _, s := range m.kinds["Service"] {
		used = append(used, s.at("spec").list("ports")...)
	}
	for _, rule := range m.kinds["NetworkPolicy"][0].at("spec").list("ingress") {
		used = append(used, rule.list("ports")...)
	}
	for _, p := range used {
		name := p["targetPort"]
		if name == nil {
			name = p["port"]
		}
		if !slices.Contains(names, fmt.Sprint(name)) {
			m.Errorf("there is no port %v", name)
		}
	}
	volumes := map[string]bool{}
	for _, v := range m.pod.list("volumes") {
		volumes[fmt.Sprint(v["name"])] = true
	}
	for _, s := range m.kinds["StatefulSet"] {
		for _, v := range s.at("spec").list("volumeClaimTemplates") {
			volumes[fmt.Sprint(v.at("metadata")["name"])] = true
		}
		if s.at("spec")["serviceName"] != m.kinds["Service"][1].at("metadata")["name"] || fmt.Sprint(s.at("spec")["replicas"]) != "1" {
			m.Error("the StatefulSet has another service, or not one replica")
		}
	}
	for _, v := range m.pod.list("containers")[0].list("volumeMounts") {
		if !volumes[fmt.Sprint(v["name"])] {
			m.Errorf("there is no volume %v", v["name"])
		}
	}
}
