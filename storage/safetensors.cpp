#include <scape/storage/safetensors.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>

namespace scape::storage {

// Elements are copied between file and memory as they are, and the format is little-endian.
static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::uint64_t length_size = 8;
// The limit of the format's own implementation.
constexpr std::uint64_t header_limit = 100'000'000;
// Sums and products of accepted integers are checked against this, so they fit every signed offset type.
constexpr std::uint64_t greatest_integer = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view metadata_key = "__metadata__";

struct DataTypeRow {
    std::string_view name;
    std::uint64_t size;
};
// Indexed by DataType.
constexpr std::array<DataTypeRow, 13> data_types{{{"BOOL", 1},
                                                  {"U8", 1},
                                                  {"I8", 1},
                                                  {"U16", 2},
                                                  {"I16", 2},
                                                  {"F16", 2},
                                                  {"BF16", 2},
                                                  {"U32", 4},
                                                  {"I32", 4},
                                                  {"F32", 4},
                                                  {"U64", 8},
                                                  {"I64", 8},
                                                  {"F64", 8}}};

/// Printable ASCII whatever the bytes are, cut at the limit: a message is one line, and names come from
/// files.
std::string shown(const std::string& text, std::size_t limit = 160) {
    const std::string escaped =
        nlohmann::json(text.substr(0, limit)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return escaped.substr(1, escaped.size() - 2) + (text.size() > limit ? "..." : "");
}

std::string in_quotes(std::string_view text) {
    std::string result = "\"";
    result += shown(std::string(text));
    return result += '"';
}

std::string tensor(std::string_view name) {
    return "tensor " + in_quotes(name);
}

std::string bytes_text(std::uint64_t count) {
    return std::to_string(count) + " bytes";
}

std::string range_text(std::uint64_t begin, std::uint64_t end) {
    return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

[[noreturn]] void fail(const std::filesystem::path& path, std::uint64_t offset, const std::string& wrong,
                       const std::string& expected) {
    const std::string text = path.string();
    throw Error(shown(text, text.size()) + ": byte " + std::to_string(offset) + ": " + wrong + "; " +
                expected);
}

/// Nothing if the size is greater than greatest_integer.
std::optional<std::uint64_t> byte_count(DataType type, const std::vector<std::uint64_t>& shape) {
    if (std::ranges::find(shape, 0U) != shape.end()) {
        return 0;
    }
    std::uint64_t count = element_size(type);
    for (const std::uint64_t extent : shape) {
        if (extent > greatest_integer / count) {
            return std::nullopt;
        }
        count *= extent;
    }
    return count;
}

/// Counts what the parser has consumed, which the parser does not tell its SAX handler.
class CountingIterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountingIterator(const char* position, std::size_t& count) : position_(position), count_(&count) {}
    reference operator*() const { return *position_; }
    CountingIterator& operator++() {
        ++position_;
        ++*count_;
        return *this;
    }
    bool operator==(const CountingIterator& other) const { return position_ == other.position_; }

  private:
    const char* position_;
    std::size_t* count_;
};

/// Reads the JSON header in one pass. Every container has its place below, so nesting deeper than the
/// format has is refused where it begins.
class HeaderReader : private nlohmann::json_sax<nlohmann::json> {
  public:
    HeaderReader(const std::filesystem::path& path, std::string text, std::uint64_t data_size)
        : path_(path), text_(std::move(text)), data_size_(data_size) {}

    void read() {
        if (!text_.starts_with('{')) {
            fail_at(0, "the header does not begin with '{'", "expected a JSON object");
        }
        blank_whitespace();
        nlohmann::json_sax<nlohmann::json>* const handler = this;
        nlohmann::json::sax_parse(CountingIterator(text_.data(), consumed_),
                                  CountingIterator(text_.data() + text_.size(), consumed_), handler,
                                  nlohmann::json::input_format_t::json, false);
        if (const std::size_t rest = text_.find_first_not_of(' ', consumed_); rest != std::string::npos) {
            fail_at(rest, "the header continues after its JSON object", "expected only spaces");
        }
    }

    std::map<std::string, std::string> metadata;
    std::vector<TensorEntry> tensors;

  private:
    enum class Place { outside, header, metadata, entry, type, shape, data_offsets };
    static constexpr std::array<std::pair<std::string_view, Place>, 3> fields{
        {{"dtype", Place::type}, {"shape", Place::shape}, {"data_offsets", Place::data_offsets}}};
    static constexpr const char* entry_text = "expected an object with dtype, shape and data_offsets";

    [[noreturn]] void fail_at(std::size_t position, const std::string& wrong,
                              const std::string& expected) const {
        fail(path_, length_size + position, wrong, expected);
    }

    [[noreturn]] void fail_entry(const std::string& wrong, const std::string& expected) const {
        fail(path_, entry_.header_offset, tensor(entry_.name) + wrong, expected);
    }

    /// The parser's error text spells each tab and newline in eight bytes; as spaces they cannot multiply
    /// the memory. It also takes a NUL for the end of the text.
    void blank_whitespace() {
        bool in_string = false;
        for (std::size_t position = 0; position < text_.size(); ++position) {
            char& character = text_[position];
            if (character == '"') {
                in_string = !in_string;
            } else if (in_string && character == '\\') {
                ++position;
            } else if (static_cast<unsigned char>(character) < ' ') {
                if (in_string || std::string_view("\t\n\r").find(character) == std::string_view::npos) {
                    fail_at(position, "a control character in the header",
                            "expected it escaped as \\u00XX");
                }
                character = ' ';
            }
        }
    }

    /// Between two tokens that are reported lie only spaces, commas and colons. A number's end shows only
    /// by the character after it, which is then consumed too.
    void next_token(std::size_t consumed_after = 0) {
        token_begin_ = text_.find_first_not_of(" ,:", token_end_);
        token_end_ = consumed_ - consumed_after;
    }

    bool refuse_token() const { refuse(shown(text_.substr(token_begin_, token_end_ - token_begin_))); }

    /// Says what a value of the wrong type is, and what it should be, from where it stands.
    [[noreturn]] void refuse(const std::string& found) const {
        constexpr const char* integer_text = "from 0 to 2^63 - 1";
        if (place_ == Place::header && value_place_ == Place::metadata) {
            fail_at(token_begin_, "the metadata is " + found, "expected an object of strings");
        } else if (place_ == Place::header) {
            fail_at(token_begin_, tensor(entry_.name) + " is " + found, entry_text);
        } else if (place_ == Place::metadata) {
            fail_at(token_begin_, "metadata " + in_quotes(metadata_name_) + " is " + found,
                    "expected a string");
        }
        const std::string field = field_name() + " of " + tensor(entry_.name);
        if (value_place_ == Place::type) {
            fail_at(token_begin_, field + " is " + found, "expected a string");
        } else if (place_ == Place::entry) {
            fail_at(token_begin_, field + " is " + found,
                    "expected an array of integers " + std::string(integer_text));
        }
        fail_at(token_begin_, field + " has the element " + found,
                "expected an integer " + std::string(integer_text));
    }

    std::string field_name() const {
        return std::string(
            std::ranges::find(fields, value_place_, &decltype(fields)::value_type::second)->first);
    }

    bool start_object(std::size_t /*unknown*/) override {
        next_token();
        if (place_ == Place::outside) {
            place_ = Place::header;
        } else if (place_ == Place::header) {
            place_ = value_place_;
        } else {
            refuse("an object");
        }
        return true;
    }

    bool end_object() override {
        next_token();
        if (place_ == Place::entry) {
            finish_entry();
        }
        place_ = place_ == Place::header ? Place::outside : Place::header;
        return true;
    }

    bool start_array(std::size_t /*unknown*/) override {
        next_token();
        if (place_ != Place::entry || value_place_ == Place::type) {
            refuse("an array");
        }
        place_ = value_place_;
        return true;
    }

    bool end_array() override {
        next_token();
        if (place_ == Place::shape) {
            entry_.shape.assign(integers_.begin(), integers_.end());
        } else if (integers_.size() == 2) {
            entry_.begin = integers_[0];
            entry_.end = integers_[1];
        } else {
            fail_entry(" has " + std::to_string(integers_.size()) + " data_offsets", "expected 2");
        }
        integers_.clear();
        place_ = Place::entry;
        return true;
    }

    bool key(std::string& text) override {
        next_token();
        if (place_ == Place::metadata) {
            if (metadata.contains(text)) {
                fail_at(token_begin_, "metadata " + in_quotes(text) + " is given twice",
                        "expected one value");
            }
            metadata_name_ = text;
        } else if (place_ == Place::entry) {
            begin_field(text);
        } else if (text == metadata_key) {
            if (std::exchange(metadata_seen_, true)) {
                fail_at(token_begin_, "the metadata is given twice", "expected one object");
            }
            value_place_ = Place::metadata;
        } else {
            entry_ = TensorEntry{};
            entry_.name = text;
            entry_.header_offset = length_size + token_begin_;
            fields_seen_ = {};
            value_place_ = Place::entry;
        }
        return true;
    }

    void begin_field(std::string_view text) {
        const auto field = std::ranges::find(fields, text, &decltype(fields)::value_type::first);
        if (field == fields.end()) {
            fail_at(token_begin_, tensor(entry_.name) + " has the unknown key " + in_quotes(text),
                    entry_text);
        }
        if (std::exchange(fields_seen_[static_cast<std::size_t>(field - fields.begin())], true)) {
            fail_at(token_begin_, tensor(entry_.name) + " has " + std::string(text) + " twice",
                    "expected one value");
        }
        value_place_ = field->second;
    }

    bool string(std::string& text) override {
        next_token();
        if (place_ == Place::metadata) {
            metadata.emplace(std::move(metadata_name_), text);
            return true;
        }
        if (place_ != Place::entry || value_place_ != Place::type) {
            refuse("a string");
        }
        const auto row = std::ranges::find(data_types, text, &DataTypeRow::name);
        if (row == data_types.end()) {
            std::string known = "expected one of";
            for (const DataTypeRow& data_type : data_types) {
                (known += ' ') += data_type.name;
            }
            fail_at(token_begin_, tensor(entry_.name) + " has the unknown dtype " + in_quotes(text), known);
        }
        entry_.type = static_cast<DataType>(row - data_types.begin());
        return true;
    }

    bool number_unsigned(std::uint64_t value) override {
        next_token(1);
        if ((place_ != Place::shape && place_ != Place::data_offsets) || value > greatest_integer) {
            return refuse_token();
        }
        integers_.push_back(value);
        return true;
    }

    // The parser reports here what has a sign, -0 too.
    bool number_integer(std::int64_t /*value*/) override {
        next_token(1);
        return refuse_token();
    }

    // And here a fraction, an exponent, or more than 64 bits.
    bool number_float(double /*value*/, const std::string& /*text*/) override {
        next_token(1);
        return refuse_token();
    }

    bool boolean(bool /*value*/) override {
        next_token();
        return refuse_token();
    }

    bool null() override {
        next_token();
        return refuse_token();
    }

    // JSON text has no such values.
    bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }

    bool parse_error(std::size_t consumed, const std::string& /*token*/,
                     const nlohmann::json::exception& error) override {
        // A number beyond the greatest double, which is of the wrong type wherever it stands.
        if (error.id == 406) {
            return number_float(0, {});
        }
        // What stands before is the parser's name for the error, and its line and column.
        const std::string text = error.what();
        fail_at(consumed - 1,
                "the header is not valid JSON (" + shown(text.substr(text.find("syntax error "))) + ")",
                "expected JSON in UTF-8; the file is damaged or not a safetensors file");
    }

    void finish_entry() {
        for (std::size_t index = 0; index < fields.size(); ++index) {
            if (!fields_seen_[index]) {
                fail_entry(" has no " + std::string(fields[index].first), entry_text);
            }
        }
        const std::string range = range_text(entry_.begin, entry_.end);
        if (entry_.begin > entry_.end) {
            fail_entry(" has data_offsets " + range + " that end before they begin",
                       "expected begin <= end");
        }
        const std::optional<std::uint64_t> size = byte_count(entry_.type, entry_.shape);
        if (!size) {
            fail_entry(" has a shape whose size overflows", "expected less than 2^63 bytes");
        }
        if (*size != entry_.end - entry_.begin) {
            fail_entry(" has data_offsets " + range + ", " + bytes_text(entry_.end - entry_.begin),
                       "expected " + bytes_text(*size) + " from its dtype and shape");
        }
        if (entry_.end > data_size_) {
            fail_entry(" has data_offsets " + range + " beyond the data section of " +
                           bytes_text(data_size_),
                       "the file is truncated");
        }
        tensors.push_back(std::move(entry_));
    }

    const std::filesystem::path& path_;
    std::string text_;
    std::uint64_t data_size_;
    std::size_t consumed_ = 0;
    std::size_t token_begin_ = 0;
    std::size_t token_end_ = 0;
    Place place_ = Place::outside;
    Place value_place_ = Place::outside; // which value the last key announced
    std::string metadata_name_;
    bool metadata_seen_ = false;
    TensorEntry entry_;
    std::array<bool, fields.size()> fields_seen_{};
    std::vector<std::uint64_t> integers_;
};

/// The tensors, sorted by their data, must follow one another and fill the data section.
void check_coverage(const std::filesystem::path& path, const std::vector<TensorEntry>& tensors,
                    std::uint64_t data_offset, std::uint64_t data_size) {
    const auto check_gap = [&](std::uint64_t begin, std::uint64_t end) {
        if (begin < end) {
            fail(path, data_offset + begin,
                 "no tensor covers the bytes " + range_text(begin, end) + " of the data section",
                 "expected tensors without gaps up to the end of the file");
        }
    };
    const TensorEntry* previous = nullptr;
    std::uint64_t covered = 0;
    for (const TensorEntry& entry : tensors) {
        if (entry.begin < covered) {
            fail(path, entry.header_offset,
                 tensor(entry.name) + " at " + range_text(entry.begin, entry.end) + " overlaps " +
                     tensor(previous->name) + " at " + range_text(previous->begin, previous->end),
                 "expected tensors one after the other");
        }
        check_gap(covered, entry.begin);
        covered = entry.end;
        previous = &entry;
    }
    check_gap(covered, data_size);
}

std::unique_ptr<const InputFile> open_to_read(const std::filesystem::path& path, const FileSystem& files) {
    constexpr const char* expected = "expected a readable safetensors file";
    const FileKind kind = files.kind(path);
    // Opening a pipe would wait for its writer.
    if (kind == FileKind::folder || kind == FileKind::other) {
        fail(path, 0, kind == FileKind::folder ? "is a directory" : "is not a regular file", expected);
    }
    std::error_code error;
    std::unique_ptr<const InputFile> file = files.open(path, error);
    if (error) {
        fail(path, 0, "cannot be opened: " + error.message(), expected);
    }
    return file;
}

/// What the writer's text becomes in the header.
std::string encode(const std::filesystem::path& path, std::uint64_t offset, const nlohmann::json& text) {
    try {
        return text.dump();
    } catch (const nlohmann::json::type_error&) {
        fail(path, offset, "a name or metadata is not valid UTF-8", "give UTF-8 text");
    }
}

} // namespace

std::uint64_t element_size(DataType type) {
    return data_types.at(static_cast<std::size_t>(type)).size;
}

std::string_view name(DataType type) {
    return data_types.at(static_cast<std::size_t>(type)).name;
}

std::uint64_t TensorEntry::element_count() const {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) {
        count *= extent;
    }
    return count;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, const FileSystem& files)
    : SafetensorsFile(path, open_to_read(path, files)) {}

SafetensorsFile::SafetensorsFile(std::filesystem::path path, std::unique_ptr<const InputFile> file)
    : path_(std::move(path)), file_(std::move(file)) {
    const std::uint64_t file_size = file_->size();
    if (file_size < length_size) {
        fail(path_, file_size, "the file ends after " + bytes_text(file_size),
             "expected the 8 bytes of the header's length; the file is truncated");
    }
    std::uint64_t length = 0;
    read_bytes(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > header_limit) {
        fail(path_, 0, "the header's length is " + bytes_text(length),
             "expected at most " + bytes_text(header_limit) +
                 "; the file is damaged or not a safetensors file");
    }
    if (length > file_size - length_size) {
        fail(path_, file_size, "the file ends inside its header of " + bytes_text(length),
             "expected at least " + bytes_text(length_size + length) + "; the file is truncated");
    }
    data_offset_ = length_size + length;
    std::string text(length, '\0');
    read_bytes(length_size, std::as_writable_bytes(std::span(text)));

    HeaderReader header(path_, std::move(text), file_size - data_offset_);
    header.read();
    metadata_ = std::move(header.metadata);
    tensors_ = std::move(header.tensors);

    std::ranges::sort(tensors_, {}, [](const TensorEntry& entry) {
        return std::tuple(entry.begin, entry.end, entry.header_offset);
    });
    by_name_.resize(tensors_.size());
    std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
    std::ranges::sort(by_name_, {}, [this](std::size_t index) {
        return std::tuple(std::string_view(tensors_[index].name), tensors_[index].header_offset);
    });
    for (std::size_t index = 1; index < by_name_.size(); ++index) {
        const TensorEntry& entry = tensors_[by_name_[index]];
        if (entry.name == tensors_[by_name_[index - 1]].name) {
            fail(path_, entry.header_offset, tensor(entry.name) + " is given twice",
                 "expected distinct names");
        }
    }
    check_coverage(path_, tensors_, data_offset_, file_size - data_offset_);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
    const auto name_at = [this](std::size_t index) { return std::string_view(tensors_[index].name); };
    const auto found = std::ranges::lower_bound(by_name_, name, {}, name_at);
    return found != by_name_.end() && name_at(*found) == name ? &tensors_[*found] : nullptr;
}

void SafetensorsFile::read_bytes(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        std::error_code error;
        const std::size_t count = file_->read(offset, bytes, error);
        if (error) {
            fail(path_, offset, "cannot be read: " + error.message(),
                 "expected " + bytes_text(bytes.size()));
        }
        if (count == 0) {
            fail(path_, offset, "the file ends here, it has shrunk since it was opened",
                 "expected another " + bytes_text(bytes.size()));
        }
        bytes = bytes.subspan(count);
        offset += count;
    }
}

template <typename Element>
std::vector<Element> SafetensorsFile::read(std::string_view name, DataType type) const {
    const TensorEntry* const entry = find(name);
    if (entry == nullptr) {
        fail(path_, length_size, "the header has no " + tensor(name),
             "expected it among the " + std::to_string(tensors_.size()) + " tensors");
    }
    if (entry->type != type) {
        fail(path_, entry->header_offset,
             tensor(name) + " has dtype " + std::string(storage::name(entry->type)),
             "expected " + std::string(storage::name(type)));
    }
    std::vector<Element> elements(entry->element_count());
    read_bytes(data_offset_ + entry->begin, std::as_writable_bytes(std::span(elements)));
    return elements;
}

std::vector<float> SafetensorsFile::read_f32(std::string_view name) const {
    return read<float>(name, DataType::f32);
}

std::vector<double> SafetensorsFile::read_f64(std::string_view name) const {
    return read<double>(name, DataType::f64);
}

std::vector<std::uint8_t> SafetensorsFile::read_u8(std::string_view name) const {
    return read<std::uint8_t>(name, DataType::u8);
}

std::vector<std::uint64_t> SafetensorsFile::read_u64(std::string_view name) const {
    return read<std::uint64_t>(name, DataType::u64);
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     const std::map<std::string, std::string>& metadata, FileSystem& files)
    : files_(files), path_(std::move(path)), partial_path_(path_.string() + ".partial"), header_("{") {
    if (!metadata.empty()) {
        header_ += encode(path_, length_size, std::string(metadata_key)) + ":" +
                   encode(path_, length_size, metadata);
    }
    std::error_code error;
    file_ = files_.create(partial_path_, error);
    if (error) {
        fail(partial_path_, 0, "cannot be created: " + error.message(),
             "expected a folder that can be written to");
    }
}

SafetensorsWriter::~SafetensorsWriter() {
    if (!finished_) {
        file_.reset();
        static_cast<void>(files_.remove(partial_path_)); // it is never taken for the whole
    }
}

void SafetensorsWriter::declare(std::string name, DataType type, std::vector<std::uint64_t> shape) {
    const std::uint64_t begin = declared_.empty() ? 0 : declared_.back().end;
    const std::string separator = header_.size() > 1 ? "," : "";
    const std::uint64_t header_offset = length_size + header_.size() + separator.size();
    if (written_ > 0) {
        fail(path_, written_, tensor(name) + " is declared after the header was written",
             "declare all tensors before the first write");
    }
    if (name == metadata_key) {
        fail(path_, header_offset, tensor(name) + " has the name of the metadata", "give it another name");
    }
    const std::optional<std::uint64_t> size = byte_count(type, shape);
    if (!size || *size > greatest_integer - begin) {
        fail(path_, header_offset, tensor(name) + " makes the size of the file overflow",
             "expected less than 2^63 bytes");
    }
    nlohmann::ordered_json entry;
    entry["dtype"] = std::string(storage::name(type));
    entry["shape"] = shape;
    entry["data_offsets"] = {begin, begin + *size};
    const std::string key = encode(path_, header_offset, name);
    if (!names_.insert(name).second) {
        fail(path_, header_offset, tensor(name) + " is declared twice", "expected distinct names");
    }
    header_ += separator + key + ":" + entry.dump();
    declared_.push_back({std::move(name), type, std::move(shape), begin, begin + *size, header_offset});
}

void SafetensorsWriter::write_f32(std::string_view name, std::span<const float> values) {
    write(name, DataType::f32, std::as_bytes(values));
}

void SafetensorsWriter::write_f64(std::string_view name, std::span<const double> values) {
    write(name, DataType::f64, std::as_bytes(values));
}

void SafetensorsWriter::write_u8(std::string_view name, std::span<const std::uint8_t> values) {
    write(name, DataType::u8, std::as_bytes(values));
}

void SafetensorsWriter::write_u64(std::string_view name, std::span<const std::uint64_t> values) {
    write(name, DataType::u64, std::as_bytes(values));
}

void SafetensorsWriter::finish() {
    require_open();
    if (written_ == 0) {
        write_header();
    }
    if (next_ < declared_.size()) {
        fail(path_, written_, tensor(declared_[next_].name) + " was not written",
             "write all declared tensors before finishing");
    }
    // A failed write may show only now. A name that is there before the data would be one of a torn file
    // after a crash of the machine.
    std::error_code error = file_->sync();
    const std::error_code closed = file_->close();
    file_.reset();
    if (error || closed) {
        fail(partial_path_, written_, "cannot be written: " + (error ? error : closed).message(),
             "expected enough free space");
    }
    error = files_.rename(partial_path_, path_);
    if (error) {
        fail(path_, 0, "cannot be replaced by the finished partial file: " + error.message(),
             "expected a file, or nothing, under this name");
    }
    finished_ = true;
}

void SafetensorsWriter::write(std::string_view name, DataType type, std::span<const std::byte> bytes) {
    require_open();
    if (next_ == declared_.size()) {
        fail(path_, written_, tensor(name) + " is written after the last declared tensor",
             "declare it first");
    }
    const TensorEntry& entry = declared_[next_];
    if (entry.name != name) {
        fail(path_, entry.header_offset, tensor(name) + " is written out of order",
             "expected " + tensor(entry.name) + ", in the declared order");
    }
    if (entry.type != type) {
        fail(path_, entry.header_offset,
             tensor(name) + " is written as " + std::string(storage::name(type)),
             "expected " + std::string(storage::name(entry.type)) + " as declared");
    }
    if (entry.end - entry.begin != bytes.size()) {
        fail(path_, entry.header_offset, tensor(name) + " is written with " + bytes_text(bytes.size()),
             "expected " + bytes_text(entry.end - entry.begin) + " as declared");
    }
    if (written_ == 0) {
        write_header();
    }
    if (!bytes.empty()) { // whose address may be null
        write_bytes(bytes);
    }
    ++next_;
}

void SafetensorsWriter::write_header() {
    header_ += '}';
    header_.resize((header_.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header_.size();
    if (length > header_limit) {
        fail(path_, 0, "the header's length is " + bytes_text(length),
             "expected at most " + bytes_text(header_limit) + "; write fewer tensors to one file");
    }
    write_bytes(std::as_bytes(std::span(&length, 1)));
    write_bytes(std::as_bytes(std::span(header_)));
}

void SafetensorsWriter::write_bytes(std::span<const std::byte> bytes) {
    std::error_code error;
    written_ += write_all(*file_, bytes, error);
    if (error) {
        file_.reset(); // it can no longer become right
        fail(partial_path_, written_, "cannot be written: " + error.message(),
             "expected enough free space");
    }
}

void SafetensorsWriter::require_open() const {
    if (!file_) {
        fail(path_, written_, "the file is closed, it was finished or a write failed", "start a new one");
    }
}

} // namespace scape::storage
