// Reads JSON objects strictly, with errors that name the key, and layouts from JSON and back.
#include <truestep/trace/config.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace truestep::trace {

using nlohmann::json;

ObjectReader::ObjectReader(const json& object, std::string what) : object_(object), what_(std::move(what)) {
    if (!object_.is_object())
        throw Error(what_ + " is not a JSON object; see section 9 of the specification");
}

const json& ObjectReader::required(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end())
        throw Error(what_ + " has no '" + key + "'; see section 9 of the specification");
    return *found;
}

double ObjectReader::number(const std::string& key) {
    const json& value = required(key);
    if (!value.is_number())
        throw wrong(key, "a number");
    return value.get<double>();
}

double ObjectReader::number_or(const std::string& key, double otherwise) {
    known_.insert(key);
    return object_.contains(key) ? number(key) : otherwise;
}

problem::Index ObjectReader::integer(const std::string& key) {
    const json& value = required(key);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62U))
        throw wrong(key, "a whole number below 2^62");
    return value.get<problem::Index>();
}

problem::Index ObjectReader::integer_or(const std::string& key, problem::Index otherwise) {
    known_.insert(key);
    return object_.contains(key) ? integer(key) : otherwise;
}

problem::Index ObjectReader::count(const std::string& key) {
    const problem::Index value = integer(key);
    if (value < 0)
        throw Error(key + " is " + std::to_string(value) + "; it must not be negative");
    return value;
}

problem::Index ObjectReader::within(const std::string& key, Range range) {
    const problem::Index value = integer(key);
    if (value < range.least || value > range.most)
        throw Error(key + " is " + std::to_string(value) + "; it must be from " +
                    std::to_string(range.least) + " to " + std::to_string(range.most));
    return value;
}

std::string ObjectReader::text(const std::string& key) {
    const json& value = required(key);
    if (!value.is_string())
        throw wrong(key, "a string");
    return value.get<std::string>();
}

std::string ObjectReader::text_or(const std::string& key, const std::string& otherwise) {
    known_.insert(key);
    return object_.contains(key) ? text(key) : otherwise;
}

bool ObjectReader::truth(const std::string& key) {
    const json& value = required(key);
    if (!value.is_boolean())
        throw wrong(key, "true or false");
    return value.get<bool>();
}

const json& ObjectReader::list(const std::string& key) {
    const json& value = required(key);
    if (!value.is_array())
        throw wrong(key, "a list");
    return value;
}

void ObjectReader::finish() const {
    for (const auto& item : object_.items())
        if (!known_.contains(item.key()))
            throw Error(what_ + " has a key that section 9 does not know: " + json(item.key()).dump() +
                        "; correct or remove it");
}

Error ObjectReader::wrong(const std::string& key, const std::string& wanted) const {
    return Error(what_ + ": '" + key + "' is not " + wanted);
}

json parse_json(const std::string& text, const std::string& what) {
    // The parser would keep the last of two equal keys, of which neither can be trusted.
    std::vector<std::set<std::string>> keys;
    std::string place; // the last key, which is what a person looks for
    const auto watch = [&](int, json::parse_event_t event, json& value) {
        if (event == json::parse_event_t::object_start)
            keys.emplace_back();
        else if (event == json::parse_event_t::object_end)
            keys.pop_back();
        else if (event == json::parse_event_t::key) {
            if (!keys.back().insert(value.get<std::string>()).second)
                throw Error(what + " has the key " + value.dump() + " twice; keep one");
            place = ", after the key " + value.dump() + ",";
        }
        return true;
    };
    try {
        return json::parse(text, watch);
    } catch (const json::parse_error& error) {
        throw Error(what + " is not JSON: byte " + std::to_string(error.byte) + " of it" + place +
                    " cannot be read");
    } catch (const json::out_of_range&) {
        throw Error(what + " is not JSON that can be read: a number" + place +
                    " is greater than a double holds");
    }
}

problem::Layout parse_layout(const json& list, const std::string& what) {
    std::vector<problem::Tensor> tensors;
    for (const json& item : list) {
        ObjectReader reader(item, what + ": tensor " + std::to_string(tensors.size()));
        tensors.push_back({reader.text("name"), reader.integer("size"), reader.truth("always_dense"),
                           reader.integer_or("param_group", 0)});
        reader.finish();
    }
    return problem::Layout(std::move(tensors));
}

nlohmann::ordered_json layout_json(const problem::Layout& layout) {
    nlohmann::ordered_json list;
    for (const problem::Tensor& tensor : layout.tensors()) {
        list.push_back(nlohmann::ordered_json{
            {"name", tensor.name}, {"size", tensor.size}, {"always_dense", tensor.always_dense}});
        if (tensor.param_group != 0) // so that traces from before parameter groups keep their bytes
            list.back()["param_group"] = tensor.param_group;
    }
    return list;
}

} // namespace truestep::trace
