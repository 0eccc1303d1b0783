// SPDX-License-Identifier: Apache-2.0

// The suite of the Go SDK. Arguments select cases by a part of their names; "--worker ADDRESS HUB
// LEDGER" makes it a worker process that the cases can kill.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) == 5 && os.Args[1] == "--worker" {
		ledgerPath = os.Args[4]
		connect(os.Args[2], os.Args[3]).work()
		fmt.Println("ready")
		select {}
	}
	server := newServer()
	server.start()
	h := connect(server.address, "").work()
	cases := append(flowCases(h), controlCases(h, server.address)...)
	failed := report(append(cases, crashCases...), os.Args[1:])
	h.close()
	server.remove()
	if failed > 0 {
		os.Exit(1)
	}
}
