/// Turns events into a tree; remembers what is refused and goes on, so that one reading shows all of it.
struct TreeBuilder {
    private let limits: Document.Limits
    private var open: [Collection] = []
    private var nodes = 0
    private var documents = 0
    private(set) var root: Node?
    private(set) var problems: [Document.Problem] = []
    /// The document was read to its end.
    private(set) var isComplete = false

    init(limits: Document.Limits) {
        self.limits = limits
    }

    /// A sequence or mapping whose end has not come yet.
    private struct Collection {
        var mark: Mark
        var isMapping: Bool
        var items: [Node] = []
        var entries: [Entry] = []
        /// First line of each name.
        var names: [String: Int] = [:]
        /// A name that waits for its value; `isUsable` is false when it was refused.
        var name: (text: String, mark: Mark, isUsable: Bool)?
    }

    /// False: nothing after this can be read.
    mutating func take(_ event: Event) -> Bool {
        if event.isAnchored || event.isTagged {
            refuse(event.mark, event.isAnchored ? "anchors (&) are not supported" : "tags (!) are not supported")
        }
        switch event.kind {
        case .documentStart:
            documents += 1
            if documents > 1 {
                refuse(event.mark, "a second document begins here; one file holds one")
                return false
            }
            return true
        case .documentEnd:
            isComplete = true
            return true
        case .syntaxError(let text):
            refuse(event.mark, "not valid YAML: \(text)")
            isComplete = false
            return false
        case .alias:
            refuse(event.mark, "aliases (*) are not supported")
            add(Node(.scalar("", isPlain: true), at: event.mark))
            return true
        case .scalar(let text, let isPlain):
            add(Node(.scalar(text, isPlain: isPlain), at: event.mark))
            return isWithinLimits(event.mark)
        case .sequenceStart, .mappingStart:
            var isMapping = false
            if case .mappingStart = event.kind { isMapping = true }
            open.append(Collection(mark: event.mark, isMapping: isMapping))
            return isWithinLimits(event.mark)
        case .end:
            guard let collection = open.popLast() else { preconditionFailure("libyaml closed what it never opened") }
            let content: Node.Content =
                collection.isMapping ? .mapping(collection.entries) : .sequence(collection.items)
            add(Node(content, at: collection.mark))
            return true
        }
    }

    private mutating func isWithinLimits(_ mark: Mark) -> Bool {
        nodes += 1
        if nodes > limits.nodes {
            refuse(mark, "more than \(limits.nodes) values")
            return false
        }
        if open.count > limits.depth {
            refuse(mark, "nested deeper than \(limits.depth)")
            return false
        }
        return true
    }

    private mutating func add(_ node: Node) {
        guard let last = open.indices.last else {
            root = node
            return
        }
        guard open[last].isMapping else {
            open[last].items.append(node)
            return
        }
        guard let name = open[last].name else {
            takeName(node, of: last)
            return
        }
        open[last].name = nil
        if name.isUsable { open[last].entries.append(Entry(name: name.text, at: name.mark, value: node)) }
    }

    /// The node is the name of the entry whose value comes next.
    private mutating func takeName(_ node: Node, of mapping: Int) {
        guard case .scalar(let text, _) = node.content else {
            refuse(node.mark, "a key must be a single word")
            open[mapping].name = ("", node.mark, false)
            return
        }
        if let line = open[mapping].names[text] {
            refuse(node.mark, "the key \(text) stands twice, first in line \(line)")
            open[mapping].name = (text, node.mark, false)
        } else {
            open[mapping].names[text] = node.mark.line
            open[mapping].name = (text, node.mark, true)
        }
    }

    private mutating func refuse(_ mark: Mark, _ text: String) {
        problems.append(Document.Problem(mark: mark, text: text))
    }
}
