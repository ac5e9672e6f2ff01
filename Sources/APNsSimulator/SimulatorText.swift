import PushRecords

extension Simulator {
    /// The text of `simulate --help` below its options: device tokens, names of faults, and the control endpoint.
    package static var helpText: String {
        var text = TokenTable.text()
        text += """

            Faults by name, for --fault and the control endpoint: a reason of Apple's (TooManyRequests), or

            """
        for named in NamedFault.all {
            text += Self.line(named.name, named.help)
        }
        for family in FaultFamily.all { text += Self.line(family.start + family.rest, family.help) }
        text += """

            FAULT@1000: every 1000th request; FAULT@5s: every 5 s, on all connections where it is a connection's.
            Several at once are fine. Of two that meet in one request, a token's own comes first, then the rule that
            stands first; an answer that comes with a fault does not wait for --latency.

            Faults of the binary gateway, for --gateway-fault; they apply to each of its connections:


            """
        for fault in GatewayFault.all { text += Self.line(fault.name, fault.help) }
        text += """

            The control endpoint (plain HTTP on the control port):

            """
        for line in ControlPages.help.split(separator: "\n") { text += "  \(line)\n" }
        return text
    }

    private static func line(_ name: String, _ help: String) -> String {
        "  \(name)\(String(repeating: " ", count: max(1, 20 - name.count)))\(help)\n"
    }

    /// The text printed after the start: the addresses, and the configuration of a worker that uses it.
    package var instructions: String {
        // As URLs have it (RFC 3986, 3.2.2).
        let host = host.contains(":") ? "[\(host)]" : host
        var text = "APNs simulator on \(host):\(port)\n"
        if let managementPort { text += "channel management on \(host):\(managementPort)\n" }
        if let gatewayPort { text += "binary gateway on \(host):\(gatewayPort)\n" }
        if let feedbackPort { text += "feedback service on \(host):\(feedbackPort)\n" }
        if let controlPort { text += "control endpoint: http://\(host):\(controlPort)/\n" }
        guard let caFile = credentials.caFile, let keyFile = credentials.providerKeyFile,
            let clientFile = credentials.clientCertificateFile, let clientKeyFile = credentials.clientKeyFile
        else { return text }
        return text + """
            certificates and keys:
              authority                 \(caFile)
              provider key              \(keyFile) (key id \(SimulatorCredentials.keyID), team id \
            \(SimulatorCredentials.teamID))
              client certificate        \(clientFile), key \(clientKeyFile) (bundle id \(SimulatorCredentials.bundleID))
            an app of the worker's configuration that uses it:
              - name: simulated
                bundle_ids: [\(SimulatorCredentials.bundleID)]
                environment: \(environment.text)
                host: localhost
                port: \(port)
                token: {key_file: \(keyFile), key_id: \(SimulatorCredentials.keyID), \
            team_id: \(SimulatorCredentials.teamID)}
                tls: {ca_file: \(caFile)}
            \(managementPort.map { "    broadcast: {manage_host: localhost, manage_port: \($0)}\n" } ?? "")
            """ + gatewayApp(caFile: caFile, certificateFile: clientFile, keyFile: clientKeyFile)
    }

    /// The configuration for the gateway, if it is served.
    private func gatewayApp(caFile: String, certificateFile: String, keyFile: String) -> String {
        guard let gatewayPort else { return "" }
        return """
              - name: simulated-gateway
                transport: binary
                bundle_ids: [\(SimulatorCredentials.bundleID)]
                environment: \(environment.text)
                host: localhost
                port: \(gatewayPort)
                certificate: {file: \(certificateFile), key_file: \(keyFile)}
                tls: {ca_file: \(caFile)}
            \(feedbackPort.map { "    binary: {feedback: {host: localhost, port: \($0)}}\n" } ?? "")
            """
    }
}
