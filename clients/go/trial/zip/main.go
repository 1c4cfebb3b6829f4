// Makes what the Go module proxy serves of this module: zip FOLDER.
package main

import (
	"archive/zip"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rlock "rlock.invalid/client"
)

const module = "rlock.invalid/client"

func main() {
	version := "v" + rlock.Version
	folder := filepath.Join(os.Args[1], module, "@v")
	check(os.MkdirAll(folder, 0o755))
	mod, err := os.ReadFile("go.mod")
	check(err)
	check(os.WriteFile(filepath.Join(folder, version+".mod"), mod, 0o644))
	check(os.WriteFile(filepath.Join(folder, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o644))
	check(os.WriteFile(filepath.Join(folder, "list"), []byte(version+"\n"), 0o644))
	file, err := os.Create(filepath.Join(folder, version+".zip"))
	check(err)
	packed := zip.NewWriter(file)
	names, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	check(err)
	for _, name := range strings.Fields(string(names)) {
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // it was removed, and not committed yet
		}
		check(err)
		item, err := packed.Create(module + "@" + version + "/" + name)
		check(err)
		_, err = item.Write(content)
		check(err)
	}
	check(packed.Close())
	check(file.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
