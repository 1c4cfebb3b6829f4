// Makes what the Go module proxy serves of this module: zip FOLDER.
package main

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rlock "rlock.invalid/client"
)

const module = "rlock.invalid/client"

func main() {
	listed, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	check(err)
	contents, hash := map[string][]byte{}, sha256.New()
	for _, name := range strings.Fields(string(listed)) {
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // it was removed, and not committed yet
		}
		check(err)
		contents[name] = content
		fmt.Fprintf(hash, "%s %d %s", name, len(content), content)
	}
	// The go command keeps what it knows of a version: other contents are another version.
	version := fmt.Sprintf("v%s-trial.%x", rlock.Version, hash.Sum(nil)[:6])
	folder := filepath.Join(os.Args[1], module, "@v")
	check(os.MkdirAll(folder, 0o755))
	check(os.WriteFile(filepath.Join(folder, version+".mod"), contents["go.mod"], 0o644))
	check(os.WriteFile(filepath.Join(folder, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o644))
	check(os.WriteFile(filepath.Join(folder, "list"), []byte(version+"\n"), 0o644))
	file, err := os.Create(filepath.Join(folder, version+".zip"))
	check(err)
	packed := zip.NewWriter(file)
	for name, content := range contents {
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
