// The elements, tables and heads of every page.
#include <algorithm>
#include <sstream>

#include <truestep/report/frame.hpp>

namespace truestep::report::page {

namespace {

std::vector<HtmlTable::Column> columns_of(const std::string& list) {
    std::vector<HtmlTable::Column> all;
    std::istringstream words(list);
    for (std::string word; std::getline(words >> std::ws, word, ',');)
        all.push_back({word.substr(0, word.find(':')), word.substr(word.find(':') + 1)});
    return all;
}

} // namespace

std::string element(const std::string& selector, const std::string& content, const Attributes& attributes) {
    const std::size_t dot = std::min(selector.find('.'), selector.size());
    const std::string name = selector.substr(0, dot);
    std::string classes = dot < selector.size() ? selector.substr(dot + 1) : "";
    std::ranges::replace(classes, '.', ' ');
    std::string html = "<" + name + (classes.empty() ? "" : " class=\"" + classes + "\"");
    for (const auto& [key, value] : attributes)
        html += std::string(" ") + key + "=\"" + escaped(value) + "\"";
    return html + ">" + content + "</" + name + ">";
}

std::string wide(const std::string& label, const std::string& content) {
    return element("div.wide", content, {{"tabindex", "0"}, {"role", "region"}, {"aria-label", label}});
}

std::string fact(const std::string& what, const std::string& value) {
    return value.empty() ? value
                         : element("div", element("dt", escaped(what)) + element("dd", escaped(value)));
}

std::string folded(const std::string& summary, const std::string& content, const std::string& selector) {
    return element(selector, element("summary", summary) + content);
}

std::string count_chip(Status status, const std::string& count, const std::string& word) {
    return element("li." + (count == "0" ? "nothing" : class_of(status)),
                   element("b", count) + " <span aria-hidden=\"true\">" + symbol(status) + "</span> " +
                       word);
}

std::string banner(Status status, const std::string& what, const std::string& headline,
                   const std::string& counts, const std::string& links) {
    return element(
               "header." + class_of(status),
               element("p.what", "truestep: " + what) +
                   element("div.verdict", element("span.sign", symbol(status), {{"aria-hidden", "true"}}) +
                                              element("h1", escaped(headline))) +
                   element("ul.counts", counts) + links) +
           "\n";
}

HtmlTable::HtmlTable(const std::string& look, const std::string& caption, const std::string& columns,
                     bool caption_shown)
    : HtmlTable(look, caption, columns_of(columns), caption_shown) {}

HtmlTable::HtmlTable(const std::string& look, const std::string& caption, std::vector<Column> columns,
                     bool caption_shown)
    : columns_(std::move(columns)), stacked_(look == "stack") {
    std::string heads;
    for (const Column& column : columns_)
        heads += element(column.kind == "number" ? "th.number" : "th", column.name,
                         roles("columnheader", {{"scope", "col"}}));
    html_ = element(caption_shown ? "caption" : "caption.sr", caption) +
            element("thead", element("tr", heads, roles("row")), roles("rowgroup"));
    look_ = "table." + look;
}

void HtmlTable::row(const std::vector<std::string>& cells, const std::string& look) {
    std::string html;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const auto& [name, kind] = columns_[i];
        html += kind == "head" ? element("th", cells[i], roles("rowheader", {{"scope", "row"}}))
                               : element("td." + kind, cells[i],
                                         stacked_ ? roles("cell", {{"data-label", name}}) : Attributes());
    }
    rows_ += element("tr." + look, html, roles("row"));
}

std::string HtmlTable::html() const {
    return element(look_, html_ + element("tbody", rows_, roles("rowgroup")), roles("table"));
}

Attributes HtmlTable::roles(const std::string& role, Attributes attributes) const {
    if (stacked_)
        attributes.emplace_back("role", role);
    return attributes;
}

} // namespace truestep::report::page
