// Command sbom writes the modules of a Go program as a CycloneDX document:
// sbom PROGRAM VERSION THIRD-PARTY.
package main

import (
	"bufio"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: sbom PROGRAM VERSION THIRD-PARTY")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	licenses, err := readLicenses(args[2])
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	main := module(cdx.ComponentTypeApplication, info.Main.Path, args[1], "Apache-2.0")
	bom.Metadata = &cdx.Metadata{Timestamp: timestamp(), Component: &main}
	components := []cdx.Component{module(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause")}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		license, ok := licenses[d.Path+" "+d.Version]
		if !ok {
			return fmt.Errorf("%s does not list %s %s", args[2], d.Path, d.Version)
		}
		components = append(components, module(cdx.ComponentTypeLibrary, d.Path, d.Version, license))
	}
	bom.Components = &components
	return cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func module(kind cdx.ComponentType, path, version, license string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{
		BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: license}}},
	}
}

// timestamp returns the time of SOURCE_DATE_EPOCH, or "".
func timestamp() string {
	n, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return ""
	}
	return time.Unix(n, 0).UTC().Format(time.RFC3339)
}

// readLicenses reads the lines "- MODULE VERSION: LICENSE" of THIRD-PARTY, which has one for
// each module.
func readLicenses(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	licenses := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if line, ok := strings.CutPrefix(s.Text(), "- "); ok {
			if name, license, ok := strings.Cut(line, ": "); ok {
				licenses[name] = license
			}
		}
	}
	return licenses, nil
}
