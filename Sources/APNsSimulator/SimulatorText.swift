import PushRecords

extension Simulator {
    /// The text of `simulate --help` below its options: device tokens, names of faults, and the control endpoint.
    package static var helpText: String {
        var text = TokenTable.text()
        text += """

            Faults by name, for --fault and the control endpoint: one of Apple's reasons (TooManyRequests), or

            """
        for named in Fault.named {
            text += Self.line(named.name, named.help)
        }
        for family in FaultFamily.all { text += Self.line(family.start + family.rest, family.help) }
        text += """

            FAULT@1000 applies to every 1000th request. FAULT@5s applies every 5 s: a fault of a connection affects all
            connections, and a fault of a request affects the next request. Rules can be combined. If several faults apply
            to one request, a fault requested by the token takes precedence, then the first rule. --latency also delays
            error answers and late-TIME. All other faults apply without this delay.

            Faults of the binary gateway, for --gateway-fault. They apply to each connection of the gateway:


            """
        for fault in GatewayFaults.all { text += Self.line(fault.name, fault.help) }
        text += """

            The control endpoint (plain HTTP on the control port):

            """
        for line in ControlPages.help.split(separator: "\n") { text += "  \(line)\n" }
        return text
    }

    private static func line(_ name: String, _ help: String) -> String {
        "  \(name)\(String(repeating: " ", count: max(1, 20 - name.count)))\(help)\n"
    }

    /// The text that `simulate` prints after the start: the addresses, and the configuration for a worker.
    package var instructions: String {
        // IPv6 addresses in URLs need brackets (RFC 3986, 3.2.2).
        let host = host.contains(":") ? "[\(host)]" : host
        var text = "APNs simulator on \(host):\(port)\n"
        if let managementPort { text += "channel management on \(host):\(managementPort)\n" }
        if let gatewayPort { text += "binary gateway on \(host):\(gatewayPort)\n" }
        if let feedbackPort { text += "feedback service on \(host):\(feedbackPort)\n" }
        if let controlPort { text += "control endpoint: http://\(host):\(controlPort)/\n" }
        guard let directory = credentials.directory, let keyFile = credentials.providerKeyFile else { return text }
        let (clientFile, clientKeyFile) = ("\(directory)/client.pem", "\(directory)/client-key.pem")
        let (keyID, teamID) = (SimulatorCredentials.keyID, SimulatorCredentials.teamID)
        /// Returns the YAML of an app in the worker's configuration.
        func app(_ name: String, _ port: UInt16, _ credential: String, transport: String = "") -> String {
            """
              - name: \(name)
            \(transport)    bundle_ids: [\(SimulatorCredentials.bundleID)]
                environment: \(environment.text)
                host: localhost
                port: \(port)
                \(credential)
                tls: {ca_file: \(directory)/ca.pem}

            """
        }
        text += """
            certificates and keys:
              authority                 \(directory)/ca.pem
              provider key              \(keyFile) (key id \(keyID), team id \(teamID))
              client certificate        \(clientFile), key \(clientKeyFile) (bundle id \(SimulatorCredentials.bundleID))
            an app for the worker's configuration that uses this simulator:

            """
        text += app("simulated", port, "token: {key_file: \(keyFile), key_id: \(keyID), team_id: \(teamID)}")
        if let managementPort { text += "    broadcast: {manage_host: localhost, manage_port: \(managementPort)}\n" }
        guard let gatewayPort else { return text }
        text += app(
            "simulated-gateway", gatewayPort, "certificate: {file: \(clientFile), key_file: \(clientKeyFile)}",
            transport: "    transport: binary\n")
        if let feedbackPort { text += "    binary: {feedback: {host: localhost, port: \(feedbackPort)}}\n" }
        return text
    }
}
