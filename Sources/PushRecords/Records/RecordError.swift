import JSON

/// An error in the bytes of a record, such as a missing member or a member of the wrong type.
public struct RecordError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String

    init(_ description: String) { self.description = description }

    init(_ error: JSONError, in member: String? = nil) {
        description = member.map { "\($0): \(error)" } ?? "not JSON: \(error)"
    }
}

struct RecordReader {
    private var json: JSONReader
    private var member = ""

    /// Calls `body` with a reader for the members of the JSON object in `bytes`.
    static func read<R>(
        _ bytes: some Collection<UInt8>, _ body: (inout RecordReader) throws(RecordError) -> R
    ) throws(RecordError) -> R {
        func lent(_ bytes: UnsafeBufferPointer<UInt8>) -> Result<R, RecordError> {
            do throws(RecordError) {
                var reader = try RecordReader(UnsafeRawBufferPointer(bytes))
                return .success(try body(&reader))
            } catch {
                return .failure(error)
            }
        }
        let result =
            bytes.withContiguousStorageIfAvailable(lent) ?? Array(bytes).withUnsafeBufferPointer(lent)
        return try result.get()
    }

    private init(_ bytes: UnsafeRawBufferPointer) throws(RecordError) {
        do throws(JSONError) {
            json = try JSONReader(bytes)
        } catch {
            throw RecordError(error)
        }
        try enterObject()
    }

    mutating func enterObject() throws(RecordError) {
        do throws(JSONError) { try json.enterObject() } catch { throw RecordError(error, in: member) }
    }

    mutating func next() -> String? {
        guard let name = json.nextMember()?.string else { return nil }
        member = name
        return name
    }

    mutating func skip() { json.skip() }

    mutating func optionalText() throws(RecordError) -> String? { json.null() ? nil : try text() }

    mutating func text() throws(RecordError) -> String {
        do throws(JSONError) { return try json.text().string } catch { throw RecordError(error, in: member) }
    }

    mutating func optionalInteger() throws(RecordError) -> Int64? { json.null() ? nil : try integer() }

    mutating func integer<I: FixedWidthInteger>(_ type: I.Type = Int64.self) throws(RecordError) -> I {
        let value: Int64
        do throws(JSONError) { value = try json.integer() } catch { throw RecordError(error, in: member) }
        guard let fitting = I(exactly: value) else { throw RecordError("\(member): \(value) is out of range") }
        return fitting
    }

    /// Reads a JSON string and converts it with `read`. Throws if `read` returns `nil`.
    mutating func word<R>(_ read: (String) -> R?) throws(RecordError) -> R {
        let text = try text()
        guard let value = read(text) else { throw RecordError("\(member): \"\(text)\" is not a known value") }
        return value
    }

    mutating func optionalWord<R>(_ read: (String) -> R?) throws(RecordError) -> R? {
        json.null() ? nil : try word(read)
    }
}

extension Optional {
    /// Returns the value of a required member, or throws if it is absent.
    func required(_ member: StaticString) throws(RecordError) -> Wrapped {
        guard let self else { throw RecordError("\(member) is missing") }
        return self
    }
}
