import JSON

/// The members of a JSON object that may be an envelope. The parser reuses the table for each record, and the table's
/// values are borrowed.
struct EnvelopeTable: ~Copyable {
    /// The member names that an envelope can have, and `aps`, which marks a payload.
    enum Name: UInt8, CaseIterable {
        case payload, deviceToken, deviceTokens, channelID, app, environment, headers, notBefore, aps

        var text: StaticString {
            switch self {
            case .payload: "payload"
            case .deviceToken: "device_token"
            case .deviceTokens: "device_tokens"
            case .channelID: "channel_id"
            case .app: "app"
            case .environment: "environment"
            case .headers: "headers"
            case .notBefore: "not_before"
            case .aps: "aps"
            }
        }

        /// - Parameter name: The contents of a validated JSON string.
        init?(_ name: UnsafeRawBufferPointer) {
            let candidate: Name?
            switch (name.count, name.first) {
            case (7, UInt8(ascii: "p")): candidate = .payload
            case (12, UInt8(ascii: "d")): candidate = .deviceToken
            case (13, UInt8(ascii: "d")): candidate = .deviceTokens
            case (10, UInt8(ascii: "c")): candidate = .channelID
            case (3, UInt8(ascii: "a")): candidate = name[2] == UInt8(ascii: "p") ? .app : .aps
            case (11, UInt8(ascii: "e")): candidate = .environment
            case (7, UInt8(ascii: "h")): candidate = .headers
            case (10, UInt8(ascii: "n")): candidate = .notBefore
            default: candidate = nil
            }
            if let candidate, candidate.text.spells(name) {
                self = candidate
                return
            }
            // JSON allows escapes in names.
            let text = JSONText(checked: name)
            guard text.hasEscapes, let found = Name.allCases.first(where: { text.equals($0.text) }) else { return nil }
            self = found
        }
    }

    private var values = ValueTable<Name>()
    /// The name of the first known member that occurs twice, or empty. `unknown` is the name of the first unknown
    /// member, or empty.
    private(set) var duplicate: UnsafeRawBufferPointer = .nothing
    private(set) var unknown: UnsafeRawBufferPointer = .nothing
    /// Whether the value lacks only a target to be an envelope: it has `payload` and no `aps`.
    private(set) var lacksTarget = false

    /// The JSON text of the member's value, or `nil` if the member is absent or `null`. A string includes its quotes.
    subscript(_ name: Name) -> UnsafeRawBufferPointer? { values[name] }

    /// Reads an object. Returns whether the object is an envelope. An envelope has `payload`, at least one of
    /// `device_token`, `device_tokens` and `channel_id`, and no `aps`.
    ///
    /// - Parameter members: The members that the scan of `value` reported.
    mutating func read(
        _ value: UnsafeRawBufferPointer, _ scan: JSONScan, _ members: UnsafeMutableBufferPointer<JSONMember>
    ) -> Bool {
        values.removeAll()
        duplicate = .nothing
        unknown = .nothing
        lacksTarget = false
        if scan.memberCount <= members.count {
            for member in members[..<scan.memberCount] {
                let name = value.part(member.nameStart, member.nameEnd)
                if !add(name, value.part(member.valueStart, member.valueEnd)) { return false }
            }
        } else {
            // The scan reports a limited number of members, which suffices for a valid envelope. This object has more,
            // so parse it again.
            var reader = JSONReader(checked: value)
            do { try reader.enterObject() } catch { return false }
            while let name = reader.nextMember() {
                if !add(name.bytes, reader.skip()) { return false }
            }
        }
        guard values.contains(.payload) else { return false }
        lacksTarget =
            !values.contains(.deviceToken) && !values.contains(.deviceTokens) && !values.contains(.channelID)
        return !lacksTarget
    }

    /// Adds a member to the table. Returns `false` if the member is `aps`, which an envelope does not have.
    private mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
        guard let known = Name(name) else {
            if unknown.baseAddress == nil { unknown = name }
            return true
        }
        if known == .aps { return false }
        let isNull = value.first == UInt8(ascii: "n")
        if !values.add(known, isNull ? .nothing : value), duplicate.baseAddress == nil { duplicate = name }
        return true
    }
}

/// A position in a JSON list of device tokens, so that a fan-out can be admitted in parts.
///
/// The cursor is a byte offset into `ParsedRequest.tokenList`, so it is also valid for a copy of the list.
/// `RequestParser` must have accepted the list, and the list must be unchanged since then.
package struct TokenCursor {
    package var position: Int
    /// The index of the next token.
    package var index: Int32

    @inlinable package init() {
        position = 0
        index = 0
    }

    /// Reads the next token into `buffer`, of at least `DeviceToken.textLimit` bytes. Returns `nil` at the end.
    package mutating func next(
        in list: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> DeviceToken.Normalized? {
        guard let text = JSONStringList.next(in: list, after: &position) else { return nil }
        index += 1
        let read = DeviceToken.normalize(text, into: buffer)
        guard read.failure != .none, JSONText(checked: text).hasEscapes else { return read }
        return withUnsafeTemporaryAllocation(byteCount: DeviceToken.textLimit + 1, alignment: 1) { resolved in
            guard let count = JSONText(checked: text).resolve(into: resolved) else { return read }
            return DeviceToken.normalize(UnsafeRawBufferPointer(rebasing: resolved[..<count]), into: buffer)
        }
    }
}
