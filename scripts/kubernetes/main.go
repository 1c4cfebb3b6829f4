// Builds each kustomization of a folder, and reads what it makes, and each other manifest there, as the API servers do that know it by
// Go types: ServiceMonitor and PrometheusRule of Prometheus' operator, where an unknown field is an error. The built ones are written
// for kubernetes-validate, which knows all the others: scripts/kubernetes.sh runs both.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apimachinery "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("kubernetes: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: kubernetes FOLDER OUTPUT")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// Reads all, and writes those that Kubernetes itself knows to files of their own.
func run(folder, output string) error {
	ofOperator := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// The values of charts are no manifests.
			if entry.Name() == "charts" {
				return filepath.SkipDir
			}
			return nil
		}
		if extension := filepath.Ext(path); extension != ".yaml" && extension != ".yml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if entry.Name() == "kustomization.yaml" {
			text, err = build(filepath.Dir(path))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		found, err := read(text, filepath.Join(output, strings.ReplaceAll(path, "/", "-")))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		ofOperator += found
		return nil
	})
	if err == nil && ofOperator == 0 {
		err = errors.New("no manifest of Prometheus' operator was found")
	}
	return err
}

// What a kustomization makes.
func build(folder string) ([]byte, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	return made.AsYaml()
}

// Reads each document, writes those of Kubernetes itself to a file of this name and a number, and counts those of Prometheus' operator.
func read(text []byte, name string) (int, error) {
	documents := apimachinery.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	ofOperator := 0
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return ofOperator, nil
		}
		if err != nil {
			return ofOperator, err
		}
		is, err := decode(document)
		if err != nil {
			return ofOperator, fmt.Errorf("document %d: %w", number, err)
		}
		if is {
			ofOperator++
			continue
		}
		if err := os.WriteFile(fmt.Sprintf("%s.%d.yaml", name, number), document, 0o644); err != nil {
			return ofOperator, err
		}
	}
}

// Whether the document is one of Prometheus' operator, and then without unknown fields.
func decode(document []byte) (bool, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return false, err
	}
	if !strings.HasPrefix(head.APIVersion, "monitoring.coreos.com/") {
		return false, nil
	}
	switch head.APIVersion + " " + head.Kind {
	case "monitoring.coreos.com/v1 ServiceMonitor":
		var monitor monitoring.ServiceMonitor
		return true, yaml.UnmarshalStrict(document, &monitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		var rule monitoring.PrometheusRule
		return true, yaml.UnmarshalStrict(document, &rule)
	}
	return true, fmt.Errorf("%s %s is not known here", head.APIVersion, head.Kind)
}
