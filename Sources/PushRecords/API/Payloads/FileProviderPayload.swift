import JSON

/// Tells a File Provider extension that something changed (push type `fileprovider`).
///
/// ```swift
/// let changed = FileProviderPayload(.workingSet, domain: "documents")
/// ```
///
/// Source: "Using push notifications to signal changes".
public struct FileProviderPayload: PushPayload {
    /// What changed (`container-identifier`).
    public enum Container: Hashable, Sendable {
        /// The working set; the only one that a replicated extension heeds.
        case workingSet
        /// The root of the domain.
        case root
        /// A container by its `itemIdentifier`.
        case item(String)

        /// Apple's word for it.
        var identifier: String {
            switch self {
            case .workingSet: "NSFileProviderWorkingSetContainerItemIdentifier"
            case .root: "NSFileProviderRootContainerItemIdentifier"
            case .item(let identifier): identifier
            }
        }
    }

    /// What changed (`container-identifier`).
    public var container: Container
    /// The `identifier` of the domain in which it did (`domain`).
    public var domain: String

    /// A payload for a container of a domain.
    public init(_ container: Container, domain: String) {
        self.container = container
        self.domain = domain
    }

    /// Always `fileprovider`.
    public var pushType: PushType { .fileprovider }

    /// `{"container-identifier":"…","domain":"…"}`; there is no `aps`.
    public func json() throws(RequestError) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.member("container-identifier", container.identifier)
        json.member("domain", domain)
        json.endObject()
        return Array(json.bytes)
    }
}
