package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	godiff "github.com/google/go-cmp/cmp"
)

const kubernetes = "../deploy/kubernetes"

// A manifest is what these tests read of an object of Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec pod
		}
	}
}

type pod struct {
	SecurityContext struct{ RunAsUser, RunAsGroup, FSGroup int }
	Containers      []container
	Volumes         []volume
}

type container struct {
	Args  []string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name          string
		ContainerPort int
	}
	StartupProbe, LivenessProbe, ReadinessProbe struct{ HTTPGet struct{ Path, Port string } }
	VolumeMounts                                []struct{ Name, MountPath string }
}

type volume struct {
	Name      string
	ConfigMap struct{ Name string }
	Secret    struct {
		SecretName  string
		DefaultMode int
	}
}

// A deployment is a file of manifests.
type deployment struct {
	text string
	all  []manifest
	*pod
	*container
}

func readDeployment(t *testing.T, name string) *deployment {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kubernetes, name))
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{text: string(text)}
	for part := range strings.SplitSeq(d.text, "\n---\n") {
		var m manifest
		object, err := yaml.YAMLToJSON([]byte(part))
		if err == nil {
			err = json.Unmarshal(object, &m) // whose names have capital letters
		}
		if err != nil {
			t.Fatal(err)
		}
		d.all = append(d.all, m)
	}
	for i := range d.all {
		if m := &d.all[i]; len(m.Spec.Template.Spec.Containers) == 1 {
			d.pod = &m.Spec.Template.Spec
			d.container = &d.pod.Containers[0]
		}
	}
	if len(d.all) != strings.Count(d.text, "\nkind: ") || d.pod == nil {
		t.Fatalf("%s: read %d objects", name, len(d.all))
	}
	return d
}

// find returns the object with a kind and a name.
func (d *deployment) find(kind, name string) *manifest {
	i := slices.IndexFunc(d.all, func(m manifest) bool { return m.Kind == kind && m.Metadata.Name == name })
	if i < 0 {
		return nil
	}
	return &d.all[i]
}

var secretLine = regexp.MustCompile(`kubectl create secret (generic|tls) (\S+) (.*)`)

// secrets returns the keys of the secrets that the comment at the beginning says how to create.
func (d *deployment) secrets() map[string][]string {
	all := map[string][]string{}
	for _, m := range secretLine.FindAllStringSubmatch(d.text, -1) {
		all[m[2]] = []string{"tls.crt", "tls.key"}
		if file, generic := strings.CutPrefix(m[3], "--from-file="); generic {
			all[m[2]] = []string{file}
		}
	}
	return all
}

var kubernetesFiles = []string{"embedded.yaml", "hbase.yaml"}

// TestKubernetesFields decodes the manifests by the types of Kubernetes' API, which refuse unknown fields.
func TestKubernetesFields(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubernetes")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = "testdata/kubernetes", append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the types of Kubernetes' API cannot be had: %v\n%s", err, out)
	}
	for _, file := range kubernetesFiles {
		path := filepath.Join(kubernetes, file)
		if out, err := exec.Command(program, path).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wrong := writeIn(t, t.TempDir(), file, strings.Replace(string(text), "readOnlyRootFilesystem", "readOnlyRootFileSystem", 1))
		if out, err := exec.Command(program, wrong).CombinedOutput(); err == nil || !strings.Contains(string(out), `unknown field "`) {
			t.Errorf("%s with a misspelt field: %v %s", file, err, out)
		}
	}
}

// TestKubernetesPods runs the container of each file in the image, with the variables, files, user and probes of the
// manifest. The server of embedded.yaml serves; of hbase.yaml, the configuration is read, since there is no ZooKeeper.
func TestKubernetesPods(t *testing.T) {
	image := buildImage(t)
	for file, want := range map[string]string{
		"embedded.yaml": `started
live
ready
ldap: dn:cn=admin,dc=example,dc=com
ldaps: dn:cn=admin,dc=example,dc=com
adding new entry "dc=example,dc=com"
restarted
dn: dc=example,dc=com
written to the root: no
`,
		"hbase.yaml": `store: "hbase://zookeeper-0.zookeeper,zookeeper-1.zookeeper,zookeeper-2.zookeeper:2181/ldapd"
listen: ["ldap://:3890", "ldaps://:6360"]
  listen: "http://0.0.0.0:3892"
`,
	} {
		t.Run(file, func(t *testing.T) {
			d := readDeployment(t, file)
			mounts := d.mounts(t)
			for _, m := range d.VolumeMounts { // a runtime makes the places
				if err := os.MkdirAll(filepath.Join(image.tree, m.MountPath), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			env := slices.Clone(image.Env)
			for _, e := range d.Env {
				env = append(env, e.Name+"="+e.Value)
			}
			s := d.pod.SecurityContext
			ports := []string{}
			for _, p := range d.container.Ports {
				ports = append(ports, fmt.Sprintf("%s=%d", p.Name, p.ContainerPort))
			}
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child", "sh", "testdata/programs/pod.sh", file)
			cmd.Env = append(os.Environ(), "TREE="+image.tree, "MOUNTS="+mounts, "PODENV="+quoted(env),
				fmt.Sprintf("PODUSER=%d:%d", s.RunAsUser, s.RunAsGroup), fmt.Sprintf("GROUPS_=%d", s.FSGroup),
				"ENTRYPOINT="+quoted(image.Entrypoint), "START="+quoted(append(slices.Clone(image.Entrypoint), d.Args...)), "PORTS="+strings.Join(ports, " "),
				"STARTUP="+d.StartupProbe.HTTPGet.Path, "LIVE="+d.LivenessProbe.HTTPGet.Path, "READY="+d.ReadinessProbe.HTTPGet.Path)
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.Output()
			if diff := godiff.Diff(want, string(out)); err != nil || diff != "" {
				t.Errorf("%v (- wanted, + the pod):\n%s\n%s", err, diff, log.String())
			}
		})
	}
}

// mounts makes the volumes as a kubelet does, and returns a file with a line for each, FOLDER PLACE MODE.
func (d *deployment) mounts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, parent := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	group := d.pod.SecurityContext.FSGroup
	made := map[string]string{}
	for _, v := range d.Volumes {
		var files map[string]string
		mode := os.FileMode(0o644)
		switch {
		case v.ConfigMap.Name != "":
			files = d.find("ConfigMap", v.ConfigMap.Name).Data
		case v.Secret.SecretName != "":
			files, mode = secretOf(t, d.secrets()[v.Secret.SecretName]), os.FileMode(v.Secret.DefaultMode)|0o440 // as fsGroup makes it
		default:
			continue
		}
		folder := filepath.Join(dir, v.Name)
		for name, text := range files {
			path := writeIn(t, filepath.Join(folder, "..1"), name, text)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, 0, group); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("..1", filepath.Join(folder, "..data")); err != nil {
			t.Fatal(err)
		}
		made[v.Name] = folder
	}
	var lines strings.Builder
	for _, m := range d.VolumeMounts {
		folder, mode := made[m.Name], "ro"
		if folder == "" { // a new volume is root's and the group's
			folder, mode = filepath.Join(dir, m.Name), "rw"
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(folder, 0, group); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(folder, 0o770|os.ModeSetgid); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintln(&lines, folder, path.Clean(m.MountPath), mode)
	}
	return writeIn(t, dir, "mounts", lines.String())
}

// secretOf returns the files of a secret: a certificate of localhost and its key, or the hash of the password "secret".
func secretOf(t *testing.T, keys []string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if slices.Equal(keys, []string{"tls.crt", "tls.key"}) {
		dir := t.TempDir()
		cmd := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
			"-addext", "subjectAltName=IP:10.1.2.3", "-keyout", dir+"/tls.key", "-out", dir+"/tls.crt")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		for _, k := range keys {
			text, err := os.ReadFile(filepath.Join(dir, k))
			if err != nil {
				t.Fatal(err)
			}
			files[k] = string(text)
		}
		return files
	}
	cmd := exec.Command(ldapd(t), "passwd", "--output", filepath.Join(t.TempDir(), "hash"))
	cmd.Stdin = strings.NewReader("x4Gq0vWb7Yt2\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	text, err := os.ReadFile(cmd.Args[3])
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		files[k] = string(text)
	}
	return maps.Clone(files)
}
