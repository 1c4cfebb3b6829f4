package rlock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The README shows this function.
func connectTLS(ctx context.Context, address, folder string) (*Client, error) {
	pair, err := tls.LoadX509KeyPair(folder+"/client.crt", folder+"/client.key")
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(folder + "/ca.crt")
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	app := redis.NewClient(&redis.Options{
		Addr:      address,
		Username:  "app",
		Password:  os.Getenv("REDIS_PASSWORD"),
		TLSConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}},
	})
	return ConnectLike(ctx, app, Options{})
}

func TestTheReadmeShowsTLS(t *testing.T) {
	source := string(must[[]byte](t)(os.ReadFile("tls_test.go")))
	_, rest, _ := strings.Cut(string(must[[]byte](t)(os.ReadFile("README.md"))), "```go tls\n")
	shown, _, _ := strings.Cut(rest, "```")
	check(t, shown != "" && strings.Contains(source, strings.ReplaceAll(shown, "rlock.", "")), shown)
}

// Servers ask clients for certificates by default.
func TestAClientCertificate(t *testing.T) {
	ctx, folder, port := within(t, 30*time.Second), t.TempDir(), freePort()
	output, err := exec.Command("sh", "../../scripts/certificates.sh", folder).CombinedOutput()
	check(t, err == nil, string(output))
	s := startServer(t, "--tls-port", fmt.Sprint(port), "--tls-auth-clients", "yes", "--tls-ca-cert-file", folder+"/ca.crt",
		"--tls-cert-file", folder+"/server.crt", "--tls-key-file", folder+"/server.key", "--user", "app", "on", ">se@cret", "~*", "&*", "+@all")
	t.Setenv("REDIS_PASSWORD", "se@cret")
	address := fmt.Sprintf("localhost:%d", port)
	client := must[*Client](t)(connectTLS(ctx, address, folder))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	waits := s.waitThenRelease(ctx, t, client.Lock("a"))
	check(t, held.Release(ctx) == nil && <-waits == nil, "handed over")

	authority := must[[]byte](t)(os.ReadFile(folder + "/ca.crt"))
	trusted := x509.NewCertPool()
	check(t, trusted.AppendCertsFromPEM(authority), "an authority")
	pair := must[tls.Certificate](t)(tls.LoadX509KeyPair(folder+"/client.crt", folder+"/client.key"))
	for _, config := range []*tls.Config{{RootCAs: trusted}, {Certificates: []tls.Certificate{pair}}} {
		app := redis.NewClient(&redis.Options{Addr: address, Username: "app", Password: "se@cret", TLSConfig: config})
		defer app.Close()
		_, err := ConnectLike(ctx, app, Options{})
		check(t, errors.Is(err, ErrUnreachable), err)
	}
}
