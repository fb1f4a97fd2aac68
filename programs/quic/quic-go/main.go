// quic-go. Its public interface has no choice of a congestion control: it always uses Reno.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
)

const (
	usage  = "usage: serve ADDRESS:PORT reno | get ADDRESS:PORT BYTES"
	alpn   = "perf"
	window = 1 << 30 // flow-control window in bytes that limits no flow
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func certificate() tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0)}
	made := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}
}

func serve(address string, config *quic.Config) {
	identity := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{alpn}}
	listener := must(quic.ListenAddr(address, identity, config))
	connection := must(listener.Accept(context.Background()))
	stream := must(connection.AcceptStream(context.Background()))
	request := make([]byte, 8)
	must(io.ReadFull(stream, request))
	data := make([]byte, 1<<16)
	for left := binary.BigEndian.Uint64(request); left > 0; {
		left -= uint64(must(stream.Write(data[:min(left, uint64(len(data)))])))
	}
	stream.Close()
	<-connection.Context().Done()
}

func get(address string, octets uint64, config *quic.Config) {
	own := must(net.ResolveUDPAddr("udp4", os.Getenv("RECEIVER")+":0"))
	socket := must(net.ListenUDP("udp4", own))
	server := must(net.ResolveUDPAddr("udp4", address))
	trust := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}}
	connection := must(quic.Dial(context.Background(), socket, server, trust, config))
	stream := must(connection.OpenStreamSync(context.Background()))
	must(stream.Write(binary.BigEndian.AppendUint64(nil, octets)))
	stream.Close()
	if found := must(io.Copy(io.Discard, stream)); uint64(found) != octets {
		log.Fatalf("%d of %d bytes arrived", found, octets)
	}
	connection.CloseWithError(0, "")
}

func main() {
	runtime.GOMAXPROCS(1) // one thread, so that runs repeat
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	config := &quic.Config{
		InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: window, MaxConnectionReceiveWindow: window,
		Tracer: qlog.DefaultConnectionTracer, // writes to $QLOGDIR
	}
	octets, err := strconv.ParseUint(os.Args[3], 10, 64)
	switch role := os.Args[1]; {
	case role == "serve" && os.Args[3] == "reno":
		serve(os.Args[2], config)
	case role == "get" && err == nil:
		get(os.Args[2], octets, config)
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
}
