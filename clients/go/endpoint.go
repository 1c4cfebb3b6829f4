package rlock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
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

const forms = "write redis://[user:password@]host[:port][/database], rediss://… for TLS, unix://[user:password@]/path[?db=database], " +
	"redis+sentinel://[user:password@]host[:port],…/service[/database] or redis+cluster://[user:password@]host[:port],…"

// endpointOfURL reads a URL. The driver knows those of one server.
func endpointOfURL(address string) (*endpoint, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	base, kind, several := strings.Cut(strings.Replace(scheme, "valkey", "redis", 1), "+")
	servers, path, _ := strings.Cut(rest, "/")
	login := servers[:strings.LastIndexByte(servers, '@')+1]
	hosts := strings.Split(servers[len(login):], ",")
	service, database, _ := strings.Cut(path, "/")
	if kind == "cluster" && path == "" || kind == "sentinel" && service != "" {
		rest = login + hosts[0] + "/" + database
	} else if several {
		return nil, invalid("not the URL of a server; %s", forms)
	}
	options, err := redis.ParseURL(base + "://" + rest)
	var bad *url.Error
	if errors.As(err, &bad) {
		// Its own text has the whole URL, with the password.
		err = bad.Err
	}
	if err != nil {
		return nil, invalid("not the URL of a server (%v); %s", err, forms)
	}
	seeds := []string{options.Addr}
	if several {
		seeds = nil
		for _, host := range hosts {
			if _, _, err := net.SplitHostPort(host); err != nil {
				host = net.JoinHostPort(strings.Trim(host, "[]"), map[string]string{"cluster": "6379", "sentinel": "26379"}[kind])
			}
			seeds = append(seeds, host)
		}
		if options.TLSConfig != nil {
			options.TLSConfig.ServerName = "" // that of each host
		}
	}
	if kind == "sentinel" {
		return endpointBySentinels(&redis.FailoverOptions{MasterName: service, SentinelAddrs: seeds, Username: options.Username,
			Password: options.Password, DB: options.DB, TLSConfig: options.TLSConfig})
	}
	return &endpoint{options: private(*options), dial: dialerOf(nil, options.TLSConfig), cluster: kind == "cluster", seeds: seeds}, nil
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

// HELLO needs no permission, and says whether the server is a primary. In the third protocol, messages and replies share a connection.
var hello = []any{"HELLO", "3"}

// demoted is whether a server that answers HELLO like this is a replica.
func demoted(told any) bool {
	role := field[string](readFields(told), "role")
	return role != "" && role != "master"
}

// open makes a connection to this address, and asks these questions on it in one piece. The driver logs in, and is closed: it
// cannot send on the connection, replace it or close it.
func (e *endpoint) open(ctx context.Context, like *redis.Options, address string, questions ...[]any) (net.Conn, []any, error) {
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
	asked, err := one.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, words := range append([][]any{hello}, questions...) {
			pipe.Do(ctx, words...)
		}
		return nil
	})
	var replies []any
	for _, each := range asked {
		reply, failed := each.(*redis.Cmd).Result()
		if refused := refusalOf(failed); refused != "" {
			reply = refused
		}
		replies = append(replies, reply)
	}
	refused, isRefused := replies[0].(serverError)
	switch {
	case isRefused && strings.HasPrefix(strings.ToLower(string(refused)), "err unknown command"):
		err = nil // a server without HELLO has said so after the login
	case isRefused:
		err = refused
	case replies[0] != nil:
		err = nil
	case refusalOf(err) != "":
		err = refusalOf(err)
	}
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
	return raw, replies, nil
}

// refusalOf is the server's error that the driver has returned, or "".
func refusalOf(err error) serverError {
	var refused redis.Error
	if errors.As(err, &refused) && !errors.Is(err, redis.Nil) {
		return serverError(refused.Error())
	}
	return ""
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
