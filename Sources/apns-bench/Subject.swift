import Configuration

/// What can be measured: the words of `--measure`.
enum Subject: String, CaseIterable, Sendable {
    case floors, payload, envelope
    case fanOut = "fan-out"
    case tenApps = "10-apps"
    case hundredApps = "100-apps"
    case binary, parts, latency, streams, network, headers, start

    /// Without being asked: under two minutes at 300,000.
    static let usual: Set<Subject> = [.floors, .payload, .envelope, .fanOut, .binary, .parts]

    /// Those that need nghttpd.
    static let onPushServer: Set<Subject> = [.floors, .payload, .envelope, .fanOut, .tenApps, .hundredApps, .start]

    /// For the help.
    static let text = """
        What is measured (--measure):
          floors     h2load, a bare nghttp2 + OpenSSL loop, a bare librdkafka loop
          payload    the whole worker, requests in payload form
          envelope   in envelope form, a device token in each record
          fan-out    in envelope form, 100 device tokens in each record
          10-apps    payload form, over ten apps
          100-apps   over a hundred
          binary     payload form, over the binary protocol
          parts      what the worker does in memory, each by itself
          latency    from the record's timestamp to the request's arrival, at 1,000 a second
          streams    50 ms added by the server, 1 to 8 connections
          network    50 ms added by the network, 1 to 8 connections
          headers    bytes of HEADERS a request
          start      to the first send and the first result, new and after kill -9

        """

    /// Names with commas between them; `all`.
    static func list(_ text: String) throws(UsageError) -> Set<Subject> {
        if text == "all" { return Set(allCases) }
        var subjects: Set<Subject> = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let subject = Subject(rawValue: String(word)) else {
                let names = allCases.map(\.rawValue).joined(separator: ", ")
                throw UsageError("there is no \"\(word)\" to measure: all, or some of \(names), with commas between")
            }
            subjects.insert(subject)
        }
        return subjects
    }
}
