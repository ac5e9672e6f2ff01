import Configuration
import JSON

/// Parses the URL of a worker's admin pages, such as `http://worker-0:9464`.
func adminEndpoint(_ url: String) -> NetworkAddress? {
    url.wholeMatch(of: /(?i)http:\/\/([^\/]+)\/?/).flatMap { NetworkAddress(String($0.1)) }
}

/// Prints a line for each setting that differs between a worker's configuration in use and another one.
func printChanges(to new: WorkerConfiguration, in worker: NetworkAddress) throws -> ExitCode {
    func failure(_ text: String) -> Exit {
        Exit(code: .unavailable, lines: ["apns-worker check: http://\(worker)/configuration \(text)"])
    }
    guard let answer = AdminAnswer(to: "/configuration", of: worker) else { throw failure("does not answer") }
    guard answer.status == 200 else {
        let advice = answer.status == 404 ? "; update the worker: its version has no such page" : ""
        throw failure("answers \(answer.statusLine)\(advice)")
    }
    guard let old = try? answer.body.withUnsafeBytes({ try settings(JSONReader($0)) }), old["apps"] != nil else {
        throw failure("does not answer with a configuration; give the address of a worker's admin.listen")
    }
    // Hashes of secrets differ between processes.
    let new = new.settings.mapValues { Setting(text: $0.text) }
    let changes = old.changes(to: new)
    func text(_ setting: Setting?) -> String { setting.map { oneLine($0.text) } ?? "(none)" }
    for path in changes {
        let appChange = new["\(path).name"] == nil ? "removed; its notifications end as invalid" : "added"
        let change = path.hasSuffix("]") ? appChange : "\(text(old[path])) -> \(text(new[path]))"
        say("\(oneLine(path)): \(change)\(Setting.needsRestart(path) ? " (after a restart)" : "")\n")
    }
    say("\(changes.isEmpty ? "No setting differs. " : "")Secrets and the contents of files are not compared.\n")
    return changes.isEmpty ? .fine : .failed
}

private func settings(_ document: consuming JSONReader) throws -> [String: Setting] {
    var reader = document
    var settings: [String: Setting] = [:]
    try reader.enterObject()
    while let path = reader.nextMember()?.string { settings[path] = Setting(text: try reader.text().string) }
    return settings
}
