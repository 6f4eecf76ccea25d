// The program kubernetes decodes manifests by the types of Kubernetes' API, and refuses fields that these types
// do not have.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// objects returns a new object of each kind that the manifests may have.
func objects() map[string]any {
	return map[string]any{
		"v1 ConfigMap": &core.ConfigMap{}, "v1 Service": &core.Service{},
		"apps/v1 StatefulSet": &apps.StatefulSet{}, "apps/v1 Deployment": &apps.Deployment{},
		"networking.k8s.io/v1 NetworkPolicy": &networking.NetworkPolicy{}, "policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{},
	}
}

func main() {
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			fail(file, err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			var is struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(part), &is); err != nil {
				fail(file, err)
			}
			kind := is.APIVersion + " " + is.Kind
			x := objects()[kind]
			if x == nil {
				fail(file, fmt.Errorf("unknown kind %s", kind))
			}
			object, err := yaml.YAMLToJSONStrict([]byte(part))
			if err != nil {
				fail(file, err)
			}
			// The package json of Kubernetes distinguishes capital letters, as its servers do.
			unknown, err := json.UnmarshalStrict(object, x)
			if err := errors.Join(append(unknown, err)...); err != nil {
				fail(file, fmt.Errorf("%s %s: %w", kind, is.Metadata.Name, err))
			}
			fmt.Println(kind, is.Metadata.Name)
		}
	}
}

func fail(file string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
	os.Exit(1)
}
