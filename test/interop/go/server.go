// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
)

var readyLine = regexp.MustCompile(` ready on (\S+:\d+)`)

// A norn server of a test's own, in a temporary data directory. The port is chosen by the system at
// the first start and kept afterwards, so that clients and workers find the server again.
type nornServer struct {
	directory string
	address   string
	command   *exec.Cmd
}

func newServer() *nornServer {
	directory, err := os.MkdirTemp("", "norn-interop-")
	must(err)
	return &nornServer{directory: directory, address: "127.0.0.1:0"}
}

func (s *nornServer) start() {
	log, err := os.OpenFile(filepath.Join(s.directory, "server.log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	defer log.Close()
	s.command = exec.Command(os.Getenv("NORN"), "server", "--data",
		filepath.Join(s.directory, "data"), "--listen", s.address)
	s.command.Stderr = log
	output, err := s.command.StdoutPipe()
	must(err)
	must(s.command.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	found := readyLine.FindStringSubmatch(line)
	if err != nil || found == nil {
		text, _ := os.ReadFile(log.Name())
		panic(fmt.Sprintf("the server is not ready; it printed: %s%s", line, text))
	}
	s.address = found[1]
}

func (s *nornServer) end(signal syscall.Signal) {
	if s.command == nil {
		return
	}
	must(s.command.Process.Signal(signal))
	_ = s.command.Wait() // a killed one ends with an error
	s.command = nil
}

// As a power cut would: no warning, nothing is flushed.
func (s *nornServer) kill() { s.end(syscall.SIGKILL) }

func (s *nornServer) stop() { s.end(syscall.SIGTERM) }

func (s *nornServer) remove() {
	s.kill()
	_ = os.RemoveAll(s.directory)
}
