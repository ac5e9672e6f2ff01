import Configuration
import JSON

/// Returns possible causes of a missing result: paused apps, and what the worker's `/status` page shows.
func workerProblems(_ configuration: WorkerConfiguration) -> [String] {
    let paused = configuration.apps.filter(\.isPaused).map {
        "app \($0.name) is paused in this configuration: none of its notifications are sent until you remove paused: true"
    }
    guard let listen = configuration.admin.listen, listen.port > 0 else { return paused }
    guard let answer = AdminAnswer(to: "/status", of: listen),
        let problems = try? answer.body.withUnsafeBytes({ try problems(JSONReader($0)) })
    else {
        return paused + ["no worker answers at \(listen) (admin.listen); check /status of the running workers"]
    }
    if problems.isEmpty { return paused + ["the worker at \(listen) reports no problems"] }
    return paused + problems.prefix(5).map { "the worker at \(listen) reports: \(oneLine($0, limit: 1_200))" }
}

private func problems(_ status: consuming JSONReader) throws -> [String] {
    var reader = status
    var lines: [String] = []
    try reader.enterObject()
    while let name = reader.nextMember() {
        guard name.equals("problems") else {
            reader.skip()
            continue
        }
        try reader.enterArray()
        while reader.nextElement() {
            var texts: [String: String] = [:]
            try reader.enterObject()
            while let name = reader.nextMember() {
                if reader.kind == .string { texts[name.string] = try reader.text().string } else { reader.skip() }
            }
            lines.append("\(texts["subject"] ?? ""): \(texts["text"] ?? ""). Advice: \(texts["advice"] ?? "")")
        }
    }
    return lines
}
