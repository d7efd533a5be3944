package handler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// connectionError names what went wrong between us and a server, for a person.
// The address and the query of the URL are not repeated: they differ from item
// to item, and failures that are alike have to read alike.
func connectionError(err error) string {
	if text := tlsError(err); text != "" {
		return text
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return fmt.Sprintf("no such host: %s (DNS)", dns.Name)
		}
		return fmt.Sprintf("the name %s could not be looked up (DNS): %s", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused" + by(err)
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset by the server"
	case errors.Is(err, syscall.EPIPE):
		return "the server closed the connection while the request was sent"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route" + by(err)
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return fmt.Sprintf("no connection within %s%s", connectTimeout, by(err))
	case errors.As(err, &op) && op.Op == "proxyconnect", strings.Contains(err.Error(), "proxyconnect"):
		return "the proxy: " + err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), strings.Contains(err.Error(), "server closed idle connection"):
		return "the server closed the connection without a whole answer"
	}
	return err.Error()
}

// by names the address that refused.
func by(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return " by " + op.Addr.String()
	}
	return ""
}

// tlsError says which of the many ways a certificate can be wrong it is; "" when
// it is none.
func tlsError(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &host):
		return "TLS: wrong host: " + strings.TrimPrefix(host.Error(), "x509: ")
	case errors.As(err, &authority):
		return "TLS: the certificate is signed by an unknown authority"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "TLS: the certificate has expired or is not valid yet: " + strings.TrimPrefix(invalid.Error(), "x509: ")
	case errors.As(err, &invalid):
		return "TLS: the certificate is not valid: " + strings.TrimPrefix(invalid.Error(), "x509: ")
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "TLS: the server does not speak it on this port"
	case errors.As(err, &alert):
		return "TLS: the server refused: " + alert.Error()
	case strings.Contains(err.Error(), "TLS handshake timeout"):
		return fmt.Sprintf("TLS: no handshake within %s", connectTimeout)
	}
	return ""
}
