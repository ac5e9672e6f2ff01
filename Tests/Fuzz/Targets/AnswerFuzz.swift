import APNs
import JSON
import Network
import PushRecords

func fuzzErrorBody(_ bytes: UnsafeRawBufferPointer) {
    let body = ErrorBody(parsing: bytes)
    // Each invalid byte becomes a replacement character of three bytes.
    require((body.text?.utf8.count ?? 0) <= 600, "the text of a reason must be limited")
    require((body.reason == .other) == (body.text != nil), "a reason must have a text exactly if it is unknown")
    require(body.timestampMs >= 0, "a timestamp must not be negative")
}

func fuzzProxy(_ bytes: UnsafeRawBufferPointer) {
    let verdict = ProxyTunnel.verdict(
        Array(bytes), to: DialTarget(host: "push.example", port: 443), hasCredentials: false)
    if let verdict { require(!verdict.isEmpty && !verdict.utf8.contains(10), "a refusal must be one line of text") }
}

/// Checks that the scanner and the reader, which relies on the scanner's check, agree on the end of each value.
func fuzzJSON(_ bytes: UnsafeRawBufferPointer) {
    withUnsafeTemporaryAllocation(of: JSONMember.self, capacity: 16) { members in
        members.initialize(repeating: JSONMember())
        let scan = JSONScanner.scan(bytes, members: members)
        let reader = try? JSONReader(bytes)
        require((scan.error == nil) == (reader != nil), "the scanner and the reader must accept the same texts")
        guard let reader else { return }
        require(reader.kind == scan.kind, "the scanner and the reader must find the same kind")
        var skipping = reader
        skipping.skip()
        require(skipping.offset == bytes.count, "skipping a value must end where the scanner ended")
        guard case .object = scan.kind else {
            var walking = reader
            walk(&walking)
            require(walking.offset == bytes.count, "reading a value must end where the scanner ended")
            return
        }
        var walking = reader
        var count = 0
        do throws(JSONError) { try walking.enterObject() } catch {
            fatalError("the reader must be able to enter an object")
        }
        while let name = walking.nextMember() {
            touch(name.bytes)
            if count < members.count {
                let member = members[count]
                require(
                    name.bytes.elementsEqual(bytes[member.nameStart..<member.nameEnd]),
                    "the scanner and the reader must find the same member name")
                require(
                    walking.offset == member.valueStart,
                    "the scanner and the reader must find the same start of a value")
            }
            walk(&walking)
            count += 1
        }
        require(count == scan.memberCount, "the scanner and the reader must find the same number of members")
        require(walking.offset == bytes.count, "the object must end at the end of the bytes")
    }
}

/// Reads one value with all its elements and members.
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
        case .bool: reader.skip()
        case .null: require(reader.null(), "the reader must read null")
        }
    } catch {
        fatalError("valid JSON could not be read: \(error)")
    }
}
