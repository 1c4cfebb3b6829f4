package rlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a server with the module, started for one test.
type server struct {
	*redis.Client
	port    int
	process *exec.Cmd
}

func serverProgram() string {
	for _, name := range []string{"RLOCK_TEST_SERVER", "REDIS_SERVER"} {
		if program := os.Getenv(name); program != "" {
			return program
		}
	}
	return "redis-server"
}

func modulePath(t *testing.T) string {
	t.Helper()
	path := os.Getenv("RLOCK_MODULE")
	if path == "" {
		path = "../../target/release/librlock.so"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build the module first", err)
	}
	return path
}

// freePort is below the ports of outgoing connections, and so is a cluster's bus, 10,000 above: one of those took that of a server before
// it began.
func freePort() int {
	for {
		port := 10_000 + rand.IntN(12_700)
		if listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
}

func startServer(t *testing.T, words ...string) *server {
	t.Helper()
	return startOn(t, freePort(), append(words, "--loadmodule", modulePath(t))...)
}

func startOn(t *testing.T, port int, words ...string) *server {
	t.Helper()
	all := []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}
	process := exec.Command(serverProgram(), append(all, words...)...)
	if len(words) > 0 && words[0] == "--sentinel" {
		process = exec.Command(serverProgram(), words[1], "--sentinel", "--port", fmt.Sprint(port), "--bind", "127.0.0.1")
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), Protocol: 2, MaxRetries: 5}), port, process}
	t.Cleanup(s.stop)
	eventually(t, "the server answers", func() bool {
		err := s.Ping(context.Background()).Err()
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH")
	})
	return s
}

func (s *server) stop() {
	_ = s.Client.Close()
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *server) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.port) }

func (s *server) do(t *testing.T, words ...any) any {
	t.Helper()
	value, err := s.Do(context.Background(), words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(words, err)
	}
	return value
}

func (s *server) waiters(t *testing.T, lock string) int {
	t.Helper()
	info, err := readInfo(s.do(t, "RLOCK.INFO", lock))
	if err != nil {
		t.Fatal(err)
	}
	return info.WaiterCount
}

func (s *server) exists(lock string) bool { return s.Exists(context.Background(), lock).Val() == 1 }

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// within is a context that ends before the test program would.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// waitThenRelease returns when the lock has this one waiter; the channel gets the outcome of its wait and release.
func (s *server) waitThenRelease(ctx context.Context, t *testing.T, lock *Lock) <-chan error {
	t.Helper()
	outcome := make(chan error)
	go func() {
		held, err := lock.Acquire(ctx)
		if err == nil {
			err = held.Release(ctx)
		}
		outcome <- err
	}()
	eventually(t, "it waits", func() bool { return s.waiters(t, lock.Name()) == 1 })
	return outcome
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

func connectTo(t *testing.T, url string, options Options) *Client {
	t.Helper()
	client, err := Connect(within(t, 30*time.Second), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(client) })
	return client
}

// closeNow does not wait for guards that a test has left.
func closeNow(client *Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = client.Shutdown(ctx)
}

func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func wantError(t *testing.T, err error, wanted ...error) {
	t.Helper()
	for _, each := range wanted {
		if !errors.Is(err, each) {
			t.Fatalf("%v, not %v", err, each)
		}
	}
}

func check(t *testing.T, holds bool, what ...any) {
	t.Helper()
	if !holds {
		t.Fatal(what...)
	}
}

// proxy passes bytes on, unless it refuses connections or is silent.
type proxy struct {
	listener net.Listener
	target   string
	mutex    sync.Mutex
	pairs    []net.Conn
	refusing bool
	silent   bool
	hear     func(request string) // gets each request
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target}
	go p.accept()
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(func() { p.refusing = true })
		p.cut()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) set(how func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	how()
}

func (p *proxy) cut() {
	p.set(func() {
		for _, conn := range p.pairs {
			_ = conn.Close()
		}
		p.pairs = nil
	})
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		target := ""
		p.set(func() { target = p.target })
		server, err := net.Dial("tcp", target)
		refused := err != nil
		p.set(func() {
			if refused = refused || p.refusing; !refused {
				p.pairs = append(p.pairs, client, server)
			}
		})
		if refused {
			_ = client.Close()
			continue
		}
		go p.pass(server, client, true)
		go p.pass(client, server, false)
	}
}

func (p *proxy) pass(to, from net.Conn, requests bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		read, err := from.Read(buffer)
		if err != nil {
			return
		}
		silent := false
		p.set(func() {
			silent = p.silent
			if requests && p.hear != nil {
				p.hear(string(buffer[:read]))
			}
		})
		if silent {
			continue
		}
		if _, err := to.Write(buffer[:read]); err != nil {
			return
		}
	}
}

// ownGoroutines are those that run code of this package or of the driver, without tests.
func ownGoroutines() string {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2)
	all := strings.Split(text.String(), "\n\n")
	all = slices.DeleteFunc(all, func(one string) bool {
		return strings.Contains(one, "_test.go") || strings.Contains(one, "testing.") ||
			!strings.Contains(one, "rlock.invalid/client.") && !strings.Contains(one, "go-redis")
	})
	return strings.Join(all, "\n\n")
}
