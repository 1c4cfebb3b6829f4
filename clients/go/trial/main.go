// Tries the module in a fresh project, against a server of its own.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"time"

	rlock "rlock.invalid/client"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	program := cmp.Or(os.Getenv("RLOCK_TEST_SERVER"), os.Getenv("REDIS_SERVER"), "redis-server")
	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--loadmodule", os.Getenv("RLOCK_MODULE"))
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	err = try("redis://127.0.0.1:" + port)
	_ = server.Process.Kill()
	_ = server.Wait()
	if err != nil {
		log.Fatal(err)
	}
}

func try(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := rlock.Connect(ctx, url, rlock.Options{SessionGrace: 2 * time.Second})
	for ; errors.Is(err, rlock.ErrUnreachable) && ctx.Err() == nil; client, err = rlock.Connect(ctx, url, rlock.Options{}) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	held, err := client.Lock("trial", rlock.Fenced()).Acquire(ctx)
	if err != nil {
		return err
	}
	left, err := held.Check()
	if err != nil {
		return err
	}
	fmt.Printf("rlock %s: token %d, %v left\n", rlock.Version, held.Token(), left.Round(time.Second/10))
	_, err = client.Lock("trial").TryAcquire(ctx)
	if !errors.Is(err, rlock.ErrDenied) {
		return fmt.Errorf("not denied: %w", err)
	}
	fmt.Println(err)
	if err := held.Release(ctx); err != nil {
		return err
	}
	// The first block of the examples needs a server, too: they run on this one.
	for _, example := range []string{"leader", "once", "readme"} {
		run := exec.Command("go", "run", "./"+example)
		run.Env = append(os.Environ(), "REDIS_URL="+url)
		run.Stdout, run.Stderr = os.Stdout, os.Stderr
		if err := run.Run(); err != nil {
			return fmt.Errorf("%s: %w", example, err)
		}
	}
	return nil
}
