import APNs
import JSON
import Network
import PushRecords

func fuzzErrorBody(_ bytes: UnsafeRawBufferPointer) {
    let pieces = Pieces()
    defer { withExtendedLifetime(pieces) {} }
    let body = ErrorBody(parsing: pieces.copy(bytes))
    // Bytes that are not UTF-8 become three each.
    require((body.text?.utf8.count ?? 0) <= 600, "a reason's text is limited")
    require((body.reason == .other) == (body.text != nil), "a reason not known by name has its text")
    require(body.timestampMs >= 0, "a timestamp is none, or positive")
}

func fuzzProxy(_ bytes: UnsafeRawBufferPointer) {
    let verdict = ProxyTunnel.verdict(
        Array(bytes), to: DialTarget(host: "push.example", port: 443), hasCredentials: false)
    if let verdict { require(!verdict.isEmpty && !verdict.utf8.contains(10), "a refusal is one line of words") }
}

/// The scanner that checks and the reader that trusts it agree on where each value ends.
func fuzzJSON(_ bytes: UnsafeRawBufferPointer) {
    let owner = Pieces()
    defer { withExtendedLifetime(owner) {} }
    let bytes = owner.copy(bytes)
    withUnsafeTemporaryAllocation(of: JSONMember.self, capacity: 16) { members in
        members.initialize(repeating: JSONMember())
        let scan = JSONScanner.scan(bytes, members: members)
        let reader = try? JSONReader(bytes)
        require((scan.error == nil) == (reader != nil), "scanner and reader accept the same")
        guard let reader else { return }
        require(reader.kind == scan.kind, "scanner and reader see the same kind")
        var skipping = reader
        skipping.skip()
        require(skipping.offset == bytes.count, "the reader is at the end of what the scanner took")
        guard case .object = scan.kind else {
            var walking = reader
            walk(&walking)
            require(walking.offset == bytes.count, "what is read piece by piece ends there, too")
            return
        }
        var walking = reader
        var count = 0
        do throws(JSONError) { try walking.enterObject() } catch { fatalError("an object is entered") }
        while let name = walking.nextMember() {
            touch(name.bytes)
            if count < members.count {
                let member = members[count]
                require(name.bytes.elementsEqual(bytes[member.nameStart..<member.nameEnd]), "members have one name")
                require(walking.offset == member.valueStart, "a member's value begins where the scanner says")
            }
            walk(&walking)
            count += 1
        }
        require(count == scan.memberCount, "the scanner counts the members that the reader finds")
        require(walking.offset == bytes.count, "the object ends where the bytes do")
    }
}

/// Reads one value and all that is in it.
private func walk(_ reader: inout JSONReader) {
    do throws(JSONError) {
        switch reader.kind {
        case .object:
            try reader.enterObject()
            while let name = reader.nextMember() {
                _ = name.string
                walk(&reader)
            }
        case .array:
            try reader.enterArray()
            while reader.nextElement() { walk(&reader) }
        case .string: _ = try reader.text().string
        case .number:
            var copy = reader
            _ = try? copy.integer()
            _ = try reader.double()
        case .bool: _ = try reader.bool()
        case .null: require(reader.null(), "null is null")
        }
    } catch {
        fatalError("checked JSON is read: \(error)")
    }
}
