import JSON

/// The constant parts of records that depend on the app only, made once. Names are cut at `RecordLimits.app`.
struct AppParts: ~Copyable {
    private let text: ByteWriter
    private let parts: [Part]

    private struct Part {
        var nameStart: Int
        var nameEnd: Int
        var membersEnd: Int
        var environment: PushEnvironment
    }

    init(_ apps: [RecordApp]) {
        var writer = JSONWriter()
        var parts: [Part] = []
        for app in apps {
            let nameStart = writer.out.count
            var name = app.name
            name.withUTF8 { writer.out.append(bytes: UnsafeRawBufferPointer($0).cutText(RecordLimits.app)) }
            let nameEnd = writer.out.count
            writer.out.append(",\"app\":\"")
            name.withUTF8 { writer.text(UnsafeRawBufferPointer($0), limit: RecordLimits.app) }
            writer.out.append("\",\"environment\":\"")
            writer.out.append(app.environment.text)
            writer.out.append("\"")
            parts.append(
                Part(
                    nameStart: nameStart, nameEnd: nameEnd, membersEnd: writer.out.count, environment: app.environment))
        }
        self.parts = parts
        text = writer.finish()
    }

    /// `,"app":"…","environment":"…"`; nothing when the place is -1.
    func members(_ app: Int) -> UnsafeRawBufferPointer {
        guard app >= 0 else { return .nothing }
        return text.bytes(from: parts[app].nameEnd, to: parts[app].membersEnd)
    }

    func name(_ app: Int) -> UnsafeRawBufferPointer {
        text.bytes(from: parts[app].nameStart, to: parts[app].nameEnd)
    }

    func environment(_ app: Int) -> PushEnvironment { parts[app].environment }
}
