package rlock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// endpoint is where the server is. With sentinels, they know its address; in a cluster, the seeds are some of its nodes.
type endpoint struct {
	options   redis.Options
	dial      dialer
	sentinels []string
	sentinel  redis.Options
	service   string
	cluster   bool
	seeds     []string
}

// follows is whether another server may become the primary.
func (e *endpoint) follows() bool { return e.service != "" }

const forms = "write redis://[user:password@]host[:port][/database], rediss://… or unix://[user:password@]/path[?db=database]"

func endpointOfURL(address string) (*endpoint, error) {
	options, err := redis.ParseURL(address)
	var bad *url.Error
	if errors.As(err, &bad) {
		// Its own text has the whole URL, with the password.
		err = bad.Err
	}
	if err != nil {
		return nil, invalid("not the URL of a server (%v); %s", err, forms)
	}
	return &endpoint{options: private(*options), dial: dialerOf(nil, options.TLSConfig), seeds: []string{options.Addr}}, nil
}

func endpointLike(app redis.UniversalClient) (*endpoint, error) {
	switch app := app.(type) {
	case *redis.Client:
		options := app.Options()
		if options.Addr == "FailoverClient" {
			return nil, unsupported("this client does not tell its Sentinels; give its FailoverOptions to ConnectSentinel")
		}
		return &endpoint{options: private(*options), dial: options.Dialer, seeds: []string{options.Addr}}, nil
	case *redis.ClusterClient:
		options := app.Options()
		if len(options.Addrs) == 0 {
			return nil, invalid("ClusterOptions need Addrs")
		}
		node := redis.Options{Username: options.Username, Password: options.Password,
			CredentialsProvider: options.CredentialsProvider, CredentialsProviderContext: options.CredentialsProviderContext}
		dial := dialerOf(options.Dialer, options.TLSConfig)
		return &endpoint{options: private(node), dial: dial, cluster: true, seeds: slices.Clone(options.Addrs)}, nil
	}
	return nil, unsupported(fmt.Sprintf("locks are on one server or cluster, and not on a %T; use a redis.Client or redis.ClusterClient", app))
}

func endpointBySentinels(options *redis.FailoverOptions) (*endpoint, error) {
	if options == nil || options.MasterName == "" || len(options.SentinelAddrs) == 0 {
		return nil, invalid("FailoverOptions need a MasterName and SentinelAddrs")
	}
	return &endpoint{
		options:   private(redis.Options{Username: options.Username, Password: options.Password, DB: options.DB}),
		sentinel:  private(redis.Options{Username: options.SentinelUsername, Password: options.SentinelPassword}),
		dial:      dialerOf(options.Dialer, options.TLSConfig),
		sentinels: slices.Clone(options.SentinelAddrs),
		service:   options.MasterName,
		seeds:     []string{""},
	}, nil
}

// private are the settings of the application's client without its pool, retries, time-outs and hooks: the machine repeats.
func private(options redis.Options) redis.Options {
	options.Protocol = 2
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	options.ReadTimeout, options.WriteTimeout = -1, -1
	options.PoolSize, options.MinIdleConns, options.MaxIdleConns, options.MaxActiveConns = 1, 0, 0, 0
	options.OnConnect, options.Limiter, options.ClientName = nil, nil, ""
	return options
}

func dialerOf(own dialer, config *tls.Config) dialer {
	if own != nil {
		return own
	} else if config != nil {
		return (&tls.Dialer{Config: config}).DialContext
	}
	return (&net.Dialer{}).DialContext
}

// lent is a connection that the driver uses for the handshake only. After that, its Close does nothing.
type lent struct {
	net.Conn
	ready atomic.Bool
}

func (l *lent) Close() error {
	if l.ready.Load() {
		return nil
	}
	return l.Conn.Close()
}

// connect makes a connection to this address, or to the primary. The driver logs in on it, and is closed: it cannot send on the
// connection, replace it or close it.
func (e *endpoint) connect(ctx context.Context, address string) (net.Conn, error) {
	if len(e.sentinels) == 0 {
		conn, _, err := e.open(ctx, &e.options, address, "PING")
		return conn, err
	}
	deadline, _ := ctx.Deadline()
	// A Sentinel that answers nothing leaves time for the others.
	share := time.Until(deadline) / time.Duration(len(e.sentinels)+1)
	var failed error
	for _, number := range rand.Perm(len(e.sentinels)) {
		within, cancel := context.WithTimeout(ctx, share)
		conn, err := e.connectBy(within, e.sentinels[number])
		cancel()
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

func (e *endpoint) connectBy(ctx context.Context, sentinel string) (net.Conn, error) {
	asked, told, err := e.open(ctx, &e.sentinel, sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", e.service)
	if errors.Is(err, redis.Nil) {
		err = fmt.Errorf("the Sentinel %s knows no primary called %s", sentinel, e.service)
	}
	if err != nil {
		return nil, err
	}
	_ = asked.Close()
	primary, _ := told.([]any)
	if len(primary) != 2 {
		return nil, errProtocol
	}
	address := net.JoinHostPort(fmt.Sprint(primary[0]), fmt.Sprint(primary[1]))
	conn, told, err := e.open(ctx, &e.options, address, "ROLE")
	if err == nil && demoted(told) {
		_ = conn.Close()
		// Sentinels are late at times.
		return nil, fmt.Errorf("the Sentinel %s names %s, which is not the primary", sentinel, address)
	}
	return conn, err
}

// demoted is whether a server that answers ROLE like this is not a primary.
func demoted(told any) bool {
	role, _ := told.([]any)
	return len(role) > 0 && role[0] != "master"
}

// open also sends a first command, which ends the handshake.
func (e *endpoint) open(ctx context.Context, like *redis.Options, address string, first ...any) (net.Conn, any, error) {
	raw, err := dialWithin(ctx, e.dial, cmp.Or(like.Network, "tcp"), address)
	if err != nil {
		return nil, nil, err
	}
	// The driver heeds a deadline, and no other end of ctx.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := &lent{Conn: raw}
	options := *like
	options.Addr = address
	options.Dialer = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	driver := redis.NewClient(&options)
	one := driver.Conn()
	asked := redis.NewCmd(ctx, first...)
	err = one.Process(ctx, asked)
	conn.ready.Store(err == nil)
	_ = one.Close()
	_ = driver.Close()
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = raw.Close()
		return nil, nil, err
	}
	return raw, asked.Val(), nil
}

// dialWithin gives up when ctx is done, though the driver's own dialer heeds ctx only without TLS.
func dialWithin(ctx context.Context, dial dialer, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, err := dial(ctx, network, address)
		dialed <- result{conn, err}
	}()
	select {
	case got := <-dialed:
		return got.conn, got.err
	case <-ctx.Done():
		go func() {
			if late := <-dialed; late.conn != nil {
				_ = late.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}
