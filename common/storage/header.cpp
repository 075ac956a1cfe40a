// Parses the JSON header of a safetensors file in one pass, and names the byte of an error.
#include "header.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "format.hpp"

namespace truestep::storage {

namespace {

/// Counts the characters that the parser has consumed, because the parser does not report it to its
/// SAX handler.
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

/// Reads the JSON header in one pass. Each container of the format has its place below, so deeper
/// nesting is refused where it begins.
class HeaderReader : private nlohmann::json_sax<nlohmann::json> {
  public:
    HeaderReader(const std::filesystem::path& path, std::string text, std::uint64_t data_size)
        : path_(path), text_(std::move(text)), data_size_(data_size) {}

    Header read() && {
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
        return std::move(header_);
    }

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

    /// The parser's error text spells each tab and newline in eight bytes; as spaces they do not
    /// multiply the memory. The parser also takes a NUL for the end of the text.
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

    /// Between two reported tokens lie only spaces, commas and colons. A number ends only at the
    /// character after it, which the parser then consumes too.
    void next_token(std::size_t consumed_after = 0) {
        token_begin_ = text_.find_first_not_of(" ,:", token_end_);
        token_end_ = consumed_ - consumed_after;
    }

    bool refuse_token() const { refuse(shown(text_.substr(token_begin_, token_end_ - token_begin_))); }

    /// Reports a value of the wrong type, and the type that its place requires.
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
            if (header_.metadata.contains(text)) {
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
            header_.metadata.emplace(std::move(metadata_name_), text);
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

    // The parser reports here every signed number, -0 too.
    bool number_integer(std::int64_t /*value*/) override {
        next_token(1);
        return refuse_token();
    }

    // The parser reports here a fraction, an exponent, or more than 64 bits.
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
        // A number beyond the greatest double has the wrong type in every place.
        if (error.id == 406) {
            return number_float(0, {});
        }
        // The parser's text begins with its name for the error, line and column.
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
        header_.tensors.push_back(std::move(entry_));
    }

    const std::filesystem::path& path_;
    std::string text_;
    std::uint64_t data_size_;
    Header header_;
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

} // namespace

Header read_header(const std::filesystem::path& path, std::string text, std::uint64_t data_size) {
    return HeaderReader(path, std::move(text), data_size).read();
}

} // namespace truestep::storage
